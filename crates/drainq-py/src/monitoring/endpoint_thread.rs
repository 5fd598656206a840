//! The endpoint: one thread that accepts, reads, answers and closes, without the GIL.
//!
//! # Invariants
//! 1. There are at most [`MOST_CONNECTIONS`] connections. One more closes the oldest, so that clients that send their
//!    request slowly, or not at all, do not keep other clients out.
//! 2. A connection lives [`LONGEST`] plus [`LONGEST_GOODBYE`] at most, and reads until [`http_answer::LARGEST_HEAD`].
//! 3. The thread ends, and its connections with it, soon after [`Endpoint::close`]. The process does not wait for it.
//! 4. In a forked child there is no thread; [`Endpoint::forget_in_child`] closes the child's copy of the listening
//!    socket. Each connection is shut down before it is closed, which ends it for a child's copy too.

use super::http_answer;
use drainq_core::sync::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The most connections at one time.
const MOST_CONNECTIONS: usize = 32;

/// The time that a client may take for its request and for reading the answer.
const LONGEST: Duration = Duration::from_secs(5);

/// The time that an answered client may take to close its side.
const LONGEST_GOODBYE: Duration = Duration::from_secs(1);

/// The pause after a failed `accept`, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening socket and the thread that answers.
pub struct Endpoint {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    /// None while a call waits for the thread's end, and afterwards. Locked with the GIL held, which is kept meanwhile.
    open: Mutex<Option<Open>>,
}

/// The socket of the thread, and a channel that the thread's end disconnects.
pub struct Open {
    listener: Weak<TcpListener>,
    ended: Receiver<()>,
}

impl Endpoint {
    /// Listens at the first of these addresses that is free, and starts the thread.
    pub fn open(address: &[SocketAddr]) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address)?);
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let closing = Arc::new(AtomicBool::new(false));
        let (alive, ended) = mpsc::channel();
        let open = Open { listener: Arc::downgrade(&listener), ended };
        let server = Server { listener, closing: closing.clone(), connections: Vec::new(), _alive: alive };
        thread::Builder::new().name("drainq-metrics".into()).spawn(|| server.run())?;
        Ok(Self { address, closing, open: Mutex::new(Some(open)) })
    }

    /// Returns the address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which this machine reaches it.
    pub fn address_here(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        address
    }

    /// Whether requests are answered.
    pub fn is_open(&self) -> bool {
        self.open.lock().is_some() && !self.closing.load(Ordering::Acquire)
    }

    /// Asks the thread to end. Returns the rest of the close, which waits for the thread without the GIL; None if the
    /// thread has ended, or another call waits for it. What the rest returns is for [`Endpoint::put_back`].
    pub fn close(&self) -> Option<impl FnOnce(Option<Duration>) -> Option<Open> + Send + use<>> {
        let open = self.open.lock().take()?;
        self.closing.store(true, Ordering::Release);
        let awake = self.address_here();
        Some(move |longest: Option<Duration>| {
            let until = longest.and_then(|longest| Instant::now().checked_add(longest));
            // A connection wakes the thread; without one the thread wakes up by itself within `LONGEST_SLEEP`.
            let patience = longest.map_or(PAUSE, |longest| longest.clamp(Duration::from_millis(1), PAUSE));
            let _ = TcpStream::connect_timeout(&awake, patience);
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            (open.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout)).then_some(open)
        })
    }

    /// Keeps the result of a close whose time ran out, for the next close.
    pub fn put_back(&self, open: Open) {
        *self.open.lock() = Some(open);
    }

    /// Closes a forked child's copy of the listening socket. The parent continues to answer.
    pub fn forget_in_child(&self) {
        let Some(open) = self.open.lock().take() else { return };
        #[cfg(unix)]
        {
            use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
            let listener = open.listener.upgrade();
            // SAFETY: the descriptor is open, because the thread had not dropped its listener at the fork. The child
            // has no such thread, and never uses or drops the listener in its memory. So the descriptor is closed once.
            drop(listener.as_ref().map(|it| unsafe { OwnedFd::from_raw_fd(it.as_raw_fd()) }));
            mem::forget(listener);
        }
        mem::forget(open);
    }
}

/// The longest sleep, after which the thread checks whether it must end.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

struct Server {
    listener: Arc<TcpListener>,
    closing: Arc<AtomicBool>,
    connections: Vec<Connection>,
    /// Declared last, so that the socket and the connections are closed before the end is seen.
    _alive: Sender<()>,
}

impl Server {
    fn run(mut self) {
        while !self.closing.load(Ordering::Acquire) {
            let ready = self.wait();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            let mut position = 0;
            self.connections.retain_mut(|connection| {
                position += 1;
                let is_ready = ready.get(position).is_some_and(|flags| !flags.is_empty());
                (!is_ready || connection.go_on(now)) && connection.is_in_time(now)
            });
            if ready.first().is_some_and(|flags| !flags.is_empty()) {
                self.accept(now);
            }
        }
    }

    /// Waits for a socket, or for the next deadline. Returns the sockets that are ready, the listener first.
    fn wait(&self) -> Vec<PollFlags> {
        let mut sockets = vec![PollFd::new(&*self.listener, PollFlags::IN)];
        sockets.extend(self.connections.iter().map(|it| PollFd::new(&it.stream, it.awaits())));
        let now = Instant::now();
        let next = self.connections.iter().map(|it| it.deadline.saturating_duration_since(now)).min();
        let sleep = next.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP) + Duration::from_millis(1);
        match poll(&mut sockets, Timespec::try_from(sleep).ok().as_ref()) {
            Ok(_) => sockets.iter().map(PollFd::revents).collect(),
            Err(_) => {
                thread::sleep(PAUSE);
                Vec::new()
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.connections.len() == MOST_CONNECTIONS {
                        self.connections.remove(0);
                    }
                    let mut connection = Connection::new(stream, now);
                    if connection.go_on(now) {
                        self.connections.push(connection);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }
}

enum Exchange {
    /// The head of the request is being read.
    Request(Vec<u8>),
    /// The answer is being sent, from this position.
    Answer(Vec<u8>, usize),
    /// The answer is sent. The client closes its side.
    Goodbye,
}

struct Connection {
    stream: TcpStream,
    deadline: Instant,
    exchange: Exchange,
}

impl Connection {
    fn new(stream: TcpStream, now: Instant) -> Self {
        Self { stream, deadline: now + LONGEST, exchange: Exchange::Request(Vec::new()) }
    }

    fn awaits(&self) -> PollFlags {
        match self.exchange {
            Exchange::Answer(..) => PollFlags::OUT,
            Exchange::Request(_) | Exchange::Goodbye => PollFlags::IN,
        }
    }

    /// Whether there is time left. A client that has sent only a part of its request gets the answer `too_slow`.
    fn is_in_time(&mut self, now: Instant) -> bool {
        if now < self.deadline {
            return true;
        }
        if matches!(&self.exchange, Exchange::Request(bytes) if !bytes.is_empty()) {
            let _ = self.stream.write(&http_answer::too_slow());
        }
        false
    }

    /// Does all work that needs no wait, so that no signal interrupts it. Returns whether the connection stays open.
    fn go_on(&mut self, now: Instant) -> bool {
        loop {
            let done = match &mut self.exchange {
                Exchange::Request(bytes) => read_into(&mut self.stream, bytes),
                Exchange::Answer(bytes, sent) => self.stream.write(&bytes[*sent..]).map(|count| *sent += count),
                Exchange::Goodbye => read_into(&mut self.stream, &mut Vec::new()),
            };
            match done {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
            match &self.exchange {
                Exchange::Request(bytes) => {
                    if let Some(answer) = http_answer::answer(bytes) {
                        self.exchange = Exchange::Answer(answer, 0);
                    }
                }
                Exchange::Answer(bytes, sent) if *sent == bytes.len() => {
                    // A close at once, with unread bytes, would discard the answer. If the client is gone, the
                    // next read fails.
                    let _ = self.stream.shutdown(Shutdown::Write);
                    self.deadline = now + LONGEST_GOODBYE;
                    self.exchange = Exchange::Goodbye;
                }
                Exchange::Answer(..) | Exchange::Goodbye => {}
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A forked child may have a copy of the descriptor (invariant 4).
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Adds the bytes that have come, at most 2,048 of them. Returns an error at the end of the stream.
fn read_into(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 2048];
    match stream.read(&mut chunk)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        count => {
            bytes.extend_from_slice(&chunk[..count]);
            Ok(())
        }
    }
}
