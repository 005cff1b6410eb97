//! The file cache as a resource before a file system: reads and writes of contents come here first, and their bytes count here.
//!
//! ```text
//!   files::Request --> Contents::client: contents --> queue of the file cache: in memory --> answered here
//!                                                                            the rest   --> the file system, in one request
//!                                      the rest --> queue of the file system
//!   a visit (no message): contents --> the file cache's scheduler agrees --> answered in the caller's turn
//!                         names    --> the file system's
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_interface::BytesReport;
use gyre_interface::around::Around;
use gyre_interface::files::files::{Client, Request};
use gyre_interface::files::{Attributes, FileError, NodeId, Pattern};
use gyre_interface::near::{Fill, Near};
use gyre_machine::PAGE_BYTES;
use gyre_message::{Labels, Link, Port};
use gyre_object::{Bytes, Page, SetOnce};

const PAGE: u64 = PAGE_BYTES as u64;

/// The resource between programs and the contents of a file system's files. Lives as long as the instance.
pub struct Contents {
    /// The near part of the file system. It tells the bytes that it shows to its caller.
    shown: &'static dyn Near,
    /// The file system.
    files: Link<Request>,
    /// The queue of the file cache.
    queue: SetOnce<Link<Request>>,
    report: BytesReport,
}

/// Takes requests about contents to the file cache, the others to the file system.
struct Way(&'static Contents);

impl Contents {
    /// Makes the resource of a file system that answers at `files` and has this near part; `report` is told the bytes
    /// that it is asked for.
    pub fn new(files: Link<Request>, shown: &'static dyn Near, report: BytesReport) -> Contents {
        Contents { shown, files, queue: SetOnce::new(), report }
    }

    /// Returns a client of the file system whose contents go through `queue`, which [`Contents::serve`] handles. Once.
    pub fn client(&'static self, queue: Link<Request>) -> Client {
        self.queue.set(queue);
        let way: &'static Way = Box::leak(Box::new(Way(self)));
        Client::new(Link::new(way)).with_near(self)
    }

    /// Handles a request in the turn of the file cache.
    pub async fn serve(&'static self, request: Request) {
        let files = Client::new(self.files);
        match request {
            Request::read { node, offset, bytes, reply } => reply.send(self.read(node, offset, bytes, false).await),
            Request::read_random { node, offset, bytes, reply } => {
                reply.send(self.read(node, offset, bytes, true).await)
            }
            Request::page { node, index, pattern, reply } => reply.send(self.page(node, index, pattern).await),
            Request::write { node, offset, data, reply } => {
                reply.send(files.write(node, offset, data).await.inspect(|written| self.moved(*written)));
            }
            Request::append { node, data, reply } => {
                let bytes = data.iter().map(Bytes::len).sum();
                reply.send(files.append(node, data).await.inspect(|_| self.moved(bytes)));
            }
            Request::page_dirtied { node, index, reply } => {
                reply.send(files.page_dirtied(node, index).await.inspect(|()| self.moved(PAGE_BYTES)));
            }
            other => self.files.send(other),
        }
    }

    fn moved(&self, bytes: usize) {
        (self.report)(bytes as u64);
    }

    /// Reads from memory up to the first absent page, and the rest from the file system in one request.
    async fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        alone: bool,
    ) -> Result<Vec<Bytes>, FileError> {
        let mut pieces = Vec::new();
        let (done, is_all) = self.known(node, offset, bytes, &mut pieces)?;
        if is_all {
            return Ok(pieces);
        }
        let files = Client::new(self.files);
        let (from, left) = (offset.saturating_add(done as u64), bytes.saturating_sub(done));
        let rest = if alone { files.read_random(node, from, left) } else { files.read(node, from, left) };
        let rest = rest.await?;
        self.moved(rest.iter().map(Bytes::len).sum());
        pieces.extend(rest);
        Ok(pieces)
    }

    /// Adds the cached part of a range, from its start on. Returns its bytes, and whether it ends there.
    fn known(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        pieces: &mut Vec<Bytes>,
    ) -> Result<(usize, bool), FileError> {
        let mut done = 0;
        while done < bytes {
            let at = offset.saturating_add(done as u64);
            let start = (at % PAGE) as usize;
            let wanted = PAGE_BYTES.saturating_sub(start).min(bytes.saturating_sub(done));
            let mut page = [None];
            let Some(count) = self.shown.read(node, at, wanted, &mut page) else { return Ok((done, false)) };
            let count = count?;
            let [page] = page;
            pieces.extend(page.filter(|_| count > 0).map(|page| Bytes::new(page, start, count)));
            done = count.saturating_add(done);
            // nothing more, or an answer that cannot be
            if count != wanted {
                break;
            }
        }
        Ok((done, true))
    }

    async fn page(&'static self, node: NodeId, index: u64, pattern: Pattern) -> Result<Page, FileError> {
        let mut around = Around::only(index);
        self.shown.to_map(node, &mut around);
        if let Some(page) = around.take_needed() {
            return Ok(page);
        }
        let page = Client::new(self.files).page(node, index, pattern).await?;
        self.moved(PAGE_BYTES);
        Ok(page)
    }

    /// Looks at contents as a request of the file cache that is handled at once; `None` if its scheduler does not agree.
    fn look<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        self.queue.get()?.visit(look)?
    }

    /// Looks at names as a request of the file system.
    fn ask<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        self.files.visit(look)?
    }
}

impl Port<Request> for Way {
    // recursion: at most 3, because the assembler puts no more ports one before another
    fn send(&self, request: Request, labels: Labels) {
        let is_contents = matches!(
            request,
            Request::read { .. }
                | Request::read_random { .. }
                | Request::page { .. }
                | Request::write { .. }
                | Request::append { .. }
                | Request::page_dirtied { .. }
        );
        match self.0.queue.get().filter(|_| is_contents) {
            Some(queue) => queue.labelled(labels).send(request),
            None => self.0.files.labelled(labels).send(request),
        }
    }

    /// The object of a look decides whose request it is: [`Contents`] makes that visit itself.
    fn visit(&self, _labels: Labels, work: &mut dyn FnMut()) -> bool {
        work();
        true
    }
}

impl Near for Contents {
    // recursion: at most 2, because what contents show is a file system and no contents
    fn attributes(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.ask(|| self.shown.attributes(node))
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn lookup(&'static self, directory: NodeId, name: &[u8]) -> Option<Result<Attributes, FileError>> {
        self.ask(|| self.shown.lookup(directory, name))
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn open(&'static self, node: NodeId) -> Option<Result<Attributes, FileError>> {
        self.ask(|| self.shown.open(node))
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn close(&'static self, node: NodeId) -> bool {
        self.ask(|| Some(self.shown.close(node))).unwrap_or(false)
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn read(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        self.look(|| self.shown.read(node, offset, bytes, into))
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn lend(
        &'static self,
        node: NodeId,
        offset: u64,
        bytes: usize,
        into: &mut [Option<Page>],
    ) -> Option<Result<usize, FileError>> {
        self.look(|| self.shown.lend(node, offset, bytes, into))
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn to_map(&'static self, node: NodeId, around: &mut Around) {
        // If the scheduler does not agree nothing is found.
        if let Some(queue) = self.queue.get() {
            let _ = queue.visit(|| self.shown.to_map(node, around));
        }
    }

    // recursion: at most 2, because what contents show is a file system and no contents
    fn overwrite(&'static self, node: NodeId, offset: u64, bytes: usize, fill: Fill<'_>) -> Option<()> {
        self.look(|| self.shown.overwrite(node, offset, bytes, fill))
    }
}
