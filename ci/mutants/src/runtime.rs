/// The mutant of the process, given by the environment, and the places that the process has reached.
#[allow(missing_docs, clippy::all)]
pub mod mutant {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{LazyLock, Mutex};

    const COUNT: usize = MUTANT_COUNT;
    static CHOSEN: LazyLock<usize> =
        LazyLock::new(|| std::env::var("CORE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX));
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    static FILE: LazyLock<Option<Mutex<std::fs::File>>> = LazyLock::new(|| {
        let path = std::env::var("CORE_MUTANTS_REACHED").ok()?;
        std::fs::OpenOptions::new().create(true).append(true).open(path).ok().map(Mutex::new)
    });

    pub fn is(number: usize) -> bool {
        if !REACHED[number].load(Ordering::Relaxed) && !REACHED[number].swap(true, Ordering::Relaxed) {
            if let Some(file) = &*FILE {
                let _ = writeln!(file.lock().unwrap(), "{number}");
            }
        }
        number == *CHOSEN
    }
}
