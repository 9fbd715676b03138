//! The settings of a scenario that represent a server.

use std::fmt::Write;

use ipam_reports::calibrate::{Fit, Took};
use kube_sim::net::Delay;
use sim_config::time::Span;

/// The extra work of a conflict as a fraction of the work on a write, if the log does not tell.
const CONFLICT_OF_WRITE: f64 = 0.25;

/// The text of a scenario: adaptors that share a pool, at servers like this one. `log` names the logs that were read.
pub(super) fn text(fit: &Fit, network: Option<Span>, log: &str) -> String {
    let nothing = Took { mean_s: 0.001, median_s: 0.001, p99_s: 0.001, max_s: 0.001, requests: 0 };
    let read = fit.read.or(fit.write).unwrap_or(nothing);
    let write = fit.write.or(fit.read).unwrap_or(nothing);
    let share = fit.width.as_ref().map_or(0.0, |width| width.share);
    // No event tells when a request took effect: halfway through the time that is not spent on a processor, as in B §8.1.
    let half = (1.0 - share) / 2.0;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# Made by `ipam-sim report calibrate`. The times of a server are those of its audit log; the rest can be changed.\n\
         name = \"calibrated\"\nwhy = {}\nseeds = 100\n\n[phases]\nsafety = \"5s\"\nliveness = \"60s\"\n\n\
         [cluster]\n# The log is that of one server.\napi_servers = 1\n",
        toml::Value::String(format!("adaptors that share a pool, at a server like that of {log}"))
    );
    match network {
        Some(span) => {
            let _ = writeln!(text, "links = {{ healthy = {{ constant = \"{span}\" }}, degraded = {{ constant = \"{span}\" }} }}");
        }
        None => text.push_str("# How long messages take is not in an audit log: these are the usual links.\n"),
    }
    let _ = write!(
        text,
        "\n# What a request takes beyond the processors of the server, whatever the load: half before it takes effect, half after.\n\
         [cluster.delays]\nprocessing = {zero}\nquorum_read = {read}\n\
         quorum_read_answer = {read}\ncommit = {write}\ncommit_answer = {write}\n",
        read = delay(&read, half),
        write = delay(&write, half),
        zero = constant(0.0)
    );
    if let Some(width) = &fit.width {
        let conflict = fit.conflict_s.unwrap_or(CONFLICT_OF_WRITE * share * write.mean_s);
        let _ = write!(
            text,
            "\n# What keeps a processor busy, so that others wait.\n[cluster.capacity]\nwidth = {}\nread = {}\nwrite = {}\nconflict = {}\n",
            width.value,
            delay(&read, share),
            delay(&write, share),
            constant(conflict)
        );
    } else {
        let _ = write!(
            text,
            "\n# No queue shows in the log, so that there is no [cluster.capacity]; a width would be at least {}.\n",
            fit.width_at_least
        );
    }
    text.push_str(
        "\n[workload]\nkind = \"byom-burst\"\ninstances = [2, 4, 8, 16, 32]\nretry = \"default-backoff\"\nprobes = false\n\n\
         [check]\nalways = [\"no-address-has-two-holders\", \"revisions-only-grow\"]\nsometimes = [\"clients-conflict\"]\n",
    );
    text
}

fn micros(seconds: f64) -> Span {
    Span::micros((seconds * 1e6).round().max(0.0) as u64)
}

fn constant(seconds: f64) -> String {
    format!("{{ constant = \"{}\" }}", micros(seconds))
}

/// A fraction of the time that requests take, with the same distribution.
fn delay(took: &Took, part: f64) -> String {
    let [median, p99, max] = [took.median_s, took.p99_s, took.max_s.max(took.p99_s)].map(|seconds| micros(seconds * part));
    match took.p99_s > took.median_s && !median.is_zero() {
        true => format!("{{ lognormal = {{ median = \"{median}\", p99 = \"{p99}\", max = \"{max}\" }} }}"),
        false => constant(took.mean_s * part),
    }
}

/// The mean of a delay.
pub(in super::super) fn mean(delay: Delay) -> f64 {
    const POINTS: u32 = 2_000;
    let sampler = delay.sampler();
    let at = |number: u32| sampler.sample((f64::from(number) + 0.5) / f64::from(POINTS)).as_secs_f64();
    (0..POINTS).map(at).sum::<f64>() / f64::from(POINTS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ipam_reports::calibrate::Width;
    use ipam_reports::statistics::Estimate;
    use kube_sim::cluster::capacity::Capacity;
    use sim_config::{Choice, Source};
    use sim_harness::scenario::Scenario;

    use super::*;

    fn fit(width: bool) -> Fit {
        let took = |mean_s: f64| Took { mean_s, median_s: mean_s * 0.8, p99_s: mean_s * 3.8, max_s: mean_s * 9.0, requests: 300 };
        let width = width.then_some(Width { value: 2, low: 1, high: 3, share: 0.25, per_second: Estimate::default(), error: 0.1 });
        Fit { read: Some(took(0.001)), write: Some(took(0.004)), conflict_s: None, width, width_at_least: 3 }
    }

    fn scenario(text: &str) -> Scenario {
        crate::systems::install();
        Scenario::parse(Path::new("settings.toml"), Source::new("settings.toml", text))
            .unwrap_or_else(|problems| panic!("{problems}\n{text}"))
    }

    #[test]
    fn the_settings_are_a_scenario_with_the_times_of_the_log() {
        let text = text(&fit(true), Some(Span::micros(70)), "a \"log\"");
        insta::assert_snapshot!(text);
        let cluster = scenario(&text).cluster;
        assert_eq!(cluster.api_servers, Choice::Is(1));
        // The processor's share and the rest add up to the whole, whatever the width.
        let read = 2.0 * mean(cluster.delays.quorum_read);
        let busy = mean(Delay::lognormal_us(200, 950, 2_250));
        assert!(((read + busy) / 0.001 - 1.0).abs() < 0.05, "{read} {busy}");
    }

    #[test]
    fn without_a_queue_there_is_no_capacity() {
        let scenario = scenario(&text(&fit(false), None, "log"));
        assert!(scenario.cluster.capacity.is_none());
        let read = mean(scenario.cluster.delays.quorum_read) + mean(scenario.cluster.delays.quorum_read_answer);
        assert!((read / 0.001 - 1.0).abs() < 0.05, "{read}");
    }

    #[test]
    fn the_mean_of_a_delay_is_that_of_its_draws() {
        assert!((mean(Delay::Constant(Span::millis(3))) - 0.003).abs() < 1e-9);
        assert!((mean(Delay::Uniform { low: Span::millis(1), high: Span::millis(3) }) - 0.002).abs() < 1e-6);
        let usual = mean(Capacity::default().read);
        assert!((0.000_9..0.001_1).contains(&usual), "{usual}");
    }
}
