//! Points as JSON and back: the setting's fields, the numbers of bursts and calls, the regime, and a triple for each metric.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

use super::metric::{METRICS, Metric};
use super::point::Point;
use super::setting::Setting;
use crate::statistics::Estimate;

pub(super) fn points<S: Serializer>(points: &[Point], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|point| {
        let mut fields = serde_json::to_value(&point.setting).unwrap_or_default();
        for (name, count) in
            [("bursts", point.bursts), ("first_seed", point.first_seed), ("calls", point.calls), ("allocated", point.allocated)]
        {
            fields[name] = count.into();
        }
        fields["reached"] = point.reached.into();
        fields["regime"] = point.regime().name().into();
        let has_faults = point.setting.has_faults();
        for metric in Metric::ALL.into_iter().filter(|metric| has_faults || !Metric::OF_FAULTS.contains(metric)) {
            fields[metric.name()] = serde_json::to_value(point.get(metric)).unwrap_or_default();
        }
        fields
    }))
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfPoint)
    }
}

/// Reads a point field by field, so that errors have a position. Fields of a later version are skipped.
struct OfPoint;

impl<'de> Visitor<'de> for OfPoint {
    type Value = Point;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a point")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Point, A::Error> {
        let mut setting = serde_json::Map::new();
        let mut estimates: [Option<Estimate>; METRICS] = [None; METRICS];
        let [mut bursts, mut first_seed, mut calls, mut allocated] = [None; 4];
        let mut reached = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "bursts" => bursts = Some(map.next_value::<u64>()?),
                "first_seed" => first_seed = Some(map.next_value::<u64>()?),
                "calls" => calls = Some(map.next_value::<u64>()?),
                "allocated" => allocated = Some(map.next_value::<u64>()?),
                "reached" => reached = Some(map.next_value::<bool>()?),
                name => match Metric::ALL.into_iter().find(|metric| metric.name() == name) {
                    Some(metric) => estimates[metric as usize] = map.next_value()?,
                    None => drop(setting.insert(key, map.next_value()?)),
                },
            }
        }
        let there = |name: &'static str, found: Option<u64>| found.ok_or_else(|| A::Error::missing_field(name));
        let bursts = (there("bursts", bursts)?, there("first_seed", first_seed)?);
        let calls = (there("calls", calls)?, there("allocated", allocated)?);
        let reached = reached.ok_or_else(|| A::Error::missing_field("reached"))?;
        let setting: Setting = serde_json::from_value(setting.into()).map_err(A::Error::custom)?;
        Ok(Point::known(setting, bursts, reached, calls, estimates))
    }
}
