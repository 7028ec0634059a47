//! Two clients of two servers in one process: neither knows anything of the other.

use busbar_abi::cuda::*;
use busbar_client::config::Config;
use busbar_client::cuda::generated::{context, event, init, memory, module, stream};
use busbar_client::cuda::{self, Client};
use busbar_e2e::server::Server;
use std::sync::Barrier;

fn client(server: &Server) -> &'static Client {
    let config = Config {
        servers: vec![server.address.clone()],
        ..Config::from_env()
    };
    cuda::open(&config).expect("a session")
}

/// Begins a thread's work with a client: a context of its own is current.
fn begin(client: &'static Client) -> CUcontext {
    cuda::bind(Some(client));
    let mut ctx = std::ptr::null_mut();
    // SAFETY: pointers to live variables.
    unsafe {
        assert_eq!(init::cuInit(0), 0);
        assert_eq!(context::cuCtxCreate_v2(&mut ctx, 0, 0), 0);
    }
    ctx
}

fn upload(bytes: &[u8]) -> CUdeviceptr {
    let mut p = 0;
    // SAFETY: a live variable, and as many bytes as are said.
    unsafe {
        assert_eq!(memory::cuMemAlloc_v2(&mut p, bytes.len()), 0);
        let rc = busbar_client::cuda::generated::copy::cuMemcpyHtoD_v2(
            p,
            bytes.as_ptr().cast(),
            bytes.len(),
        );
        assert_eq!(rc, 0);
    }
    p
}

fn download(p: CUdeviceptr, n: usize) -> Result<Vec<u8>, CUresult> {
    let mut bytes = vec![0; n];
    // SAFETY: as many bytes as are said.
    let rc = unsafe {
        busbar_client::cuda::generated::copy::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), p, n)
    };
    if rc == 0 { Ok(bytes) } else { Err(rc) }
}

#[test]
fn two_clients_of_two_servers_live_in_one_process() {
    let servers = [Server::start(), Server::start()];
    let clients = servers.each_ref().map(client);
    let together = Barrier::new(2);
    let found: Vec<_> = std::thread::scope(|s| {
        let work = |i: usize| {
            let (client, together) = (clients[i], &together);
            s.spawn(move || {
                begin(client);
                together.wait();
                let ours = vec![i as u8 + 1; 100_000];
                let p = upload(&ours);
                together.wait();
                // Each has chosen its first address for itself, and so the same one.
                let bytes = download(p, ours.len()).expect("it works");
                (p, bytes == ours)
            })
        };
        let threads = [work(0), work(1)];
        threads.map(|t| t.join().expect("no panic")).into()
    });
    assert_eq!(found[0].0, found[1].0, "one does not know the other's");
    assert!(found.iter().all(|f| f.1), "the bytes of each are its own");
}

#[test]
fn handles_of_one_client_mean_nothing_to_another() {
    let servers = [Server::start(), Server::start()];
    let [a, b] = servers.each_ref().map(client);
    begin(a);
    let (mut one, mut two) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: live variables, and handles that the calls look up.
    unsafe {
        assert_eq!(event::cuEventCreate(&mut one, 0), 0);
        assert_eq!(event::cuEventCreate(&mut two, 0), 0);
        begin(b);
        assert_eq!(
            event::cuEventDestroy_v2(two),
            CUDA_ERROR_INVALID_HANDLE,
            "it has made no event yet"
        );
        let mut none = std::ptr::null_mut();
        assert_eq!(
            module::cuModuleGetFunction(&mut none, one.cast(), c"f".as_ptr()),
            CUDA_ERROR_INVALID_HANDLE
        );
        cuda::bind(Some(a));
        let mut current = std::ptr::null_mut();
        assert_eq!(context::cuCtxGetCurrent(&mut current), 0);
        assert!(current.is_null(), "bound anew, the thread has no context");
        assert_eq!(event::cuEventDestroy_v2(two), 0);
        assert_eq!(event::cuEventDestroy_v2(one), 0);
    }
}

#[test]
fn one_client_goes_on_when_the_others_server_dies() {
    let mut servers = [Server::start(), Server::start()];
    let [a, b] = servers.each_ref().map(client);
    begin(b);
    let p = upload(&[7; 64]);
    begin(a);
    let q = upload(&[8; 64]);
    servers[0].kill();
    busbar_e2e::until("an error of the dead server's client", || {
        download(q, 64).err()
    });
    cuda::bind(Some(b));
    let mut s = std::ptr::null_mut();
    // SAFETY: a live variable.
    unsafe {
        let mut ctx = std::ptr::null_mut();
        assert_eq!(context::cuCtxCreate_v2(&mut ctx, 0, 0), 0);
        assert_eq!(stream::cuStreamCreate(&mut s, 0), 0);
    }
    assert_eq!(download(p, 64), Ok(vec![7; 64]));
}
