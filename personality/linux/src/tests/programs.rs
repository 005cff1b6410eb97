//! Real program files: mapped, started, damaged.

use super::script::*;
use crate::Errno;
use crate::exec::{CURRENT_DIRECTORY, Request, replace_program};
use crate::run::Running;
use crate::task::launch::Launch;
use crate::tenant::TenantLimits;
use alloc::vec;
use alloc::vec::Vec;
use gyre_interface::files::{NewNode, NodeId, NodeKind, files};
use gyre_machine::{PAGE_BYTES, UserContext, live_frame_bytes};
use gyre_message::direct::block_on;
use gyre_object::Bytes;
use proptest::prelude::*;

async fn add(client: files::Client, name: &[u8], contents: &[u8]) -> NodeId {
    let root = client.root().await.unwrap();
    let new = NewNode { kind: NodeKind::File, mode: 0o755, user: 0, group: 0, target: Vec::new(), device: 0 };
    let node = client.create(root, name.to_vec(), new).await.unwrap().node;
    for (index, part) in contents.chunks(PAGE_BYTES).enumerate() {
        let data = vec![Bytes::copy_from(part).unwrap()];
        client.write(node, (index * PAGE_BYTES) as u64, data).await.unwrap();
    }
    node
}

/// Returns a small static program: one segment of a page and a half with its headers, zeroes behind.
fn program() -> Vec<u8> {
    let mut file = vec![0; 6000];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &2u16.to_le_bytes());
    put(18, &62u16.to_le_bytes());
    put(24, &0x40_1000u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(54, &56u16.to_le_bytes());
    put(56, &1u16.to_le_bytes());
    put(64, &1u32.to_le_bytes());
    put(68, &7u32.to_le_bytes());
    put(80, &0x40_0000u64.to_le_bytes());
    put(96, &6000u64.to_le_bytes());
    put(104, &20_000u64.to_le_bytes());
    put(5999, b"!");
    file
}

fn request(path: &[u8]) -> Request {
    Request {
        directory: CURRENT_DIRECTORY,
        path: path.to_vec(),
        flags: 0,
        arguments: vec![b"name".to_vec(), b"argument".to_vec()],
        environment: vec![b"KEY=value".to_vec()],
    }
}

/// Starts `path` on a thread that never runs, and looks at it.
async fn execute(
    contents: &[(&[u8], &[u8])],
    path: &[u8],
) -> Result<(Running, alloc::sync::Arc<crate::Process>), Errno> {
    let root = memory_files();
    for (name, contents) in contents {
        add(root, name, contents).await;
    }
    let tenant = tenant_on(root, TenantLimits { processes: 4, threads: 4 }).await;
    let process = start(&tenant, {
        let mut script = Script::default();
        script.call(34, &[]);
        script
    })
    .await;
    let thread = process.threads.lock()[0].clone();
    let mut running = Running::new(UserContext::new().unwrap());
    let result = replace_program(&thread, &mut running, request(path)).await;
    drop(thread);
    result.map(|()| (running, process))
}

#[test]
fn the_owners_program_starts_in_a_full_tenant() {
    block_on(async {
        let root = memory_files();
        add(root, b"p", &program()).await;
        let tenant = tenant_on(root, TenantLimits { processes: 1, threads: 1 }).await;
        let first = start_resting(&tenant).await;
        let launch = Launch {
            path: b"/p".to_vec(),
            arguments: vec![b"p".to_vec()],
            environment: Vec::new(),
            files: tenant.files().clone(),
            credentials: Default::default(),
            limits: Default::default(),
            terminal: None,
        };
        let process = tenant.launch(launch).await.unwrap();
        // It never runs: there is no script for it.
        process.end(9);
        assert_eq!(tenant.tree.lock().processes().len(), 2, "it counts");
        let limits = *tenant.limits.lock();
        assert_eq!(tenant.tree.lock().reserve(&limits, true), Err(Errno::EAGAIN), "programs are refused");
        first.end(9);
    });
}

#[test]
fn a_program_is_mapped_with_zeroes_behind_and_its_stack_filled() {
    block_on(async {
        let (running, process) = execute(&[(b"p", &program())], b"/p").await.unwrap();
        let space = process.space();
        assert_eq!(running.context.registers.rip, 0x40_1000);
        let mut bytes = [9; 4];
        space.copy_in(0x40_0000 + 5998, &mut bytes).await.unwrap();
        assert_eq!(&bytes, &[0, b'!', 0, 0]);
        space.copy_in(0x40_0000 + 19_996, &mut bytes).await.unwrap();
        assert_eq!(bytes, [0; 4]);
        let sp = running.context.registers.rsp;
        assert_eq!(sp % 16, 0);
        let table: [u64; 6] = space.read_struct(sp).await.unwrap();
        assert_eq!((table[0], table[3], table[5]), (2, 0, 0), "argc, end of argv, end of envp");
        let text = |address| space.read_string(address, 100);
        assert_eq!(text(table[1]).await.unwrap().unwrap(), b"name");
        assert_eq!(text(table[2]).await.unwrap().unwrap(), b"argument");
        assert_eq!(text(table[4]).await.unwrap().unwrap(), b"KEY=value");
        let vector = auxiliary(&space, sp + 48).await;
        let find = |key| vector.iter().find(|entry| entry[0] == key).map(|entry| entry[1]);
        assert_eq!((find(3), find(5), find(9)), (Some(0x40_0040), Some(1), Some(0x40_1000)));
        assert_eq!(text(find(31).unwrap()).await.unwrap().unwrap(), b"/p");
        assert_eq!(find(25).unwrap() >> 47, 0, "random bytes lie in user memory");
        assert_eq!(process.name(), b"p");
        process.end(9);
        end_of(&process).await;
    });
}

async fn auxiliary(space: &gyre_address_space::AddressSpace, at: u64) -> Vec<[u64; 2]> {
    let mut all = Vec::new();
    loop {
        let entry: [u64; 2] = space.read_struct(at + 16 * all.len() as u64).await.unwrap();
        all.push(entry);
        if entry[0] == 0 {
            return all;
        }
    }
}

#[test]
fn scripts_start_their_interpreter_with_their_path() {
    block_on(async {
        let files: &[(&[u8], &[u8])] = &[(b"p", &program()), (b"s", b"#!/p -x\n"), (b"t", b"#! /s\n")];
        let (_, process) = execute(files, b"/t").await.unwrap();
        assert_eq!(process.program.lock().arguments, b"/p\0-x\0/s\0/t\0argument\0");
        assert_eq!(process.program.lock().path, b"/p");
        process.end(9);
        end_of(&process).await;
        let looping: &[(&[u8], &[u8])] = &[(b"l", b"#!/l\n")];
        assert_eq!(execute(looping, b"/l").await.err(), Some(Errno::ELOOP));
        assert_eq!(execute(&[], b"/none").await.err(), Some(Errno::ENOENT));
        assert_eq!(execute(&[(b"e", b"")], b"/e").await.err(), Some(Errno::ENOEXEC));
        assert_eq!(execute(&[(b"e", b"\x7fELF")], b"/e").await.err(), Some(Errno::ENOEXEC));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damaged_programs_are_refused_or_started_and_leave_no_frames(
        changes in proptest::collection::vec((0usize..120, any::<u8>()), 1..8)
    ) {
        let mut file = program();
        for (at, byte) in changes {
            file[at] = byte;
        }
        block_on(async {
            if let Ok((running, process)) = execute(&[(b"p", &file)], b"/p").await {
                assert!(running.context.registers.rip < gyre_machine::USER_END);
                let space = alloc::sync::Arc::downgrade(&process.space());
                process.end(9);
                end_of(&process).await;
                drop((running, process));
                assert!(space.upgrade().is_none());
            }
        });
        prop_assert!(live_frame_bytes() < 1 << 30);
    }
}
