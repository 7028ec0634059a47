//! The writers: one module per place that generated code goes to.

mod abi;
mod asked;
mod begin;
mod client;
mod contract;
mod docs;
mod effects;
mod library;
mod loader;
mod wire;
mod worker;

use crate::file::Files;
use crate::model::Api;

/// Adds every file of one API.
pub fn api(api: &Api, files: &mut Files) {
    if api.travels() {
        wire::emit(api, files);
        effects::emit(api, files);
        contract::emit(api, files);
    }
    if api.generates_functions() {
        abi::emit(api, files);
        client::emit(api, files);
    }
    asked::emit(api, files);
    if api.config.worker_state.is_some() {
        worker::emit(api, files);
        library::emit(api, files);
    }
    loader::emit(api, files);
    docs::emit(api, files);
}

/// Adds the files that name every API.
pub fn roots(apis: &[Api], files: &mut Files) {
    wire::root(apis, files);
    abi::root(apis, files);
}
