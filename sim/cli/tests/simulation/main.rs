//! The simulated cluster and the systems in it: the API server compared with its reference, the clients, the nodes, the controllers, every
//! fault, and the behaviour of BYOM and Spiderpool.

#[path = "../support/in_process.rs"]
mod in_process;
#[path = "../support/install.rs"]
mod install;

mod bursts;
mod byom;
mod clients;
mod conflicts;
mod controllers;
mod deliveries;
mod faults;
mod kubelet;
mod kubernetes;
mod nodes;
mod phases;
mod spiderpool;
