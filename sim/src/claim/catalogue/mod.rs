//! Which claims there are: a table for each system, and all of them in one.

mod allocation;
mod byom;
mod common;
mod reclaim;
mod subnets;

use super::ClaimDef;

const TABLES: [&[ClaimDef]; 5] = [common::CLAIMS, byom::CLAIMS, allocation::CLAIMS, reclaim::CLAIMS, subnets::CLAIMS];

const ALL_LEN: usize = {
    let (mut len, mut table) = (0, 0);
    while table < TABLES.len() {
        len += TABLES[table].len();
        table += 1;
    }
    len
};

/// The catalogue.
pub const ALL: &[ClaimDef] = &{
    let mut all = [TABLES[0][0]; ALL_LEN];
    let (mut next, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            all[next] = TABLES[table][row];
            next += 1;
            row += 1;
        }
        table += 1;
    }
    all
};
