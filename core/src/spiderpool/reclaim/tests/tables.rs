//! The rows of the tables, one by one.
