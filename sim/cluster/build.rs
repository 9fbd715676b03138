//! Refuses to build without `--cfg madsim`, before anything else is compiled: such a build cannot simulate, and the compiler would report
//! it only after minutes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_MADSIM").is_none() {
        println!(
            "cargo::error=kube-sim simulates only under `--cfg madsim`: put `rustflags = [\"--cfg\", \"madsim\"]` under `[build]` into the \
             .cargo/config.toml of the folder in which cargo runs and unset RUSTFLAGS, which replaces it, or, where there is no such file \
             (as for `cargo install` from a registry or by --git), set RUSTFLAGS=\"--cfg madsim\""
        );
    }
}
