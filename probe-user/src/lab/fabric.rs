//! Azure's host behind one NIC: answers for the gateway, sends probes, stays silent to strays.
//!
//! A thread with a raw socket on the far end of the NIC's veth. That end has no address, so the kernel there has nothing
//! to say either.

use std::{
    net::IpAddr,
    os::fd::AsFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::EventFd,
};

use super::{
    Error, Result,
    engine::Engine,
    netns::Namespace,
    packet_socket::PacketSocket,
    probe_log::AttemptLog,
    prober::{Probe, Prober},
    view::View,
    wire::{FABRIC_MAC, Mac, Segment},
};
pub use super::{engine::Strays, neighbour::Answers, recorder::Recorded};

/// What the fabric needs to know of its NIC.
#[derive(Clone, Debug)]
pub struct Config {
    /// MAC of the appliance's NIC.
    pub nic_mac: Mac,
    /// Addresses of the appliance's NIC, which the fabric does not claim.
    pub own: Vec<IpAddr>,
    pub answers: Answers,
    /// Answer the VM's own requests to 168.63.129.16.
    pub platform: bool,
}

struct Shared {
    engine: Mutex<Engine>,
    /// Something may have happened.
    changed: Condvar,
    /// Wakes the thread when there is something new to do.
    wake: EventFd,
    outgoing: Mutex<Vec<Vec<u8>>>,
    stop: AtomicBool,
}

impl Shared {
    fn engine(&self) -> MutexGuard<'_, Engine> {
        // A panic under the lock leaves counters and logs, which are whole at every point.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outgoing(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Full only when it has been woken 2^64 times.
        let _ = self.wake.write(1);
    }
}

/// A running fabric; it ends when this is dropped.
pub struct Fabric {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    namespace: Namespace,
}

/// A running prober of a fabric.
#[derive(Clone)]
pub struct Running {
    shared: Arc<Shared>,
    id: u64,
}

impl Running {
    /// What the load balancer saw so far.
    pub fn log(&self) -> Vec<AttemptLog> {
        self.shared.engine().log(self.id)
    }

    /// What it concludes from that.
    pub fn view(&self) -> View {
        self.shared.engine().prober(self.id).map_or_else(View::default, Prober::view)
    }

    /// No attempt is to come, and nothing more can happen to one but the end of an answered connection.
    pub fn is_settled(&self) -> bool {
        self.shared.engine().prober(self.id).is_none_or(Prober::is_settled)
    }

    /// Waits until so many attempts are judged, or until `patience` is over; then the log.
    pub fn wait(&self, attempts: usize, patience: Duration) -> Vec<AttemptLog> {
        let judged = |prober: &Prober| prober.log().iter().filter(|a| !a.is_pending()).count() >= attempts;
        self.wait_for(patience, judged)
    }

    /// Waits until every attempt is judged and every connection closed, or until `patience` is over; then the log.
    pub fn wait_done(&self, patience: Duration) -> Vec<AttemptLog> {
        self.wait_for(patience, Prober::is_done)
    }

    fn wait_for(&self, patience: Duration, ready: impl Fn(&Prober) -> bool) -> Vec<AttemptLog> {
        let waits = |engine: &mut Engine| engine.prober(self.id).is_some_and(|prober| !ready(prober));
        let engine = self.shared.engine();
        let waited = self.shared.changed.wait_timeout_while(engine, patience, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.log(self.id)
    }

    /// How many attempts were answered.
    pub fn answered(&self) -> usize {
        self.log().iter().filter(|attempt| attempt.answered()).count()
    }

    /// No further attempts; what is open is closed properly.
    pub fn stop(&self) {
        let now = Instant::now();
        let mut engine = self.shared.engine();
        for prober in engine.probers.iter_mut().filter(|prober| prober.id == self.id) {
            prober.stop(now);
        }
        drop(engine);
        self.shared.wake();
    }
}

impl Fabric {
    /// Starts on `device` of `namespace`.
    pub fn start(namespace: &Namespace, device: &str, config: Config) -> Result<Self> {
        let socket = namespace.run(|| PacketSocket::open(device))??;
        let wake = EventFd::new().map_err(|e| Error::system("make an eventfd", e))?;
        let shared = Arc::new(Shared {
            engine: Mutex::new(Engine::new(config)),
            changed: Condvar::new(),
            wake,
            outgoing: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name(format!("fabric-{}", namespace.label()))
            .spawn(move || serve(socket, &of_thread))
            .map_err(|e| Error::system("start a thread", e))?;
        Ok(Self { shared, thread: Some(thread), namespace: namespace.clone() })
    }

    /// Starts a prober.
    pub fn probe(&self, probe: Probe) -> Result<Running> {
        probe.check().map_err(Error::Invalid)?;
        let id = self.shared.engine().add(probe, Instant::now());
        self.shared.wake();
        Ok(Running { shared: Arc::clone(&self.shared), id })
    }

    /// Sends any frame.
    pub fn send(&self, frame: Vec<u8>) {
        self.shared.outgoing().push(frame);
        self.shared.wake();
    }

    /// Sends a segment to the NIC.
    pub fn send_segment(&self, segment: &Segment) {
        let mac = self.shared.engine().config.nic_mac;
        self.send(segment.frame(FABRIC_MAC, mac));
    }

    /// Which addresses are claimed by ARP and ND from now on.
    pub fn set_answers(&self, answers: Answers) {
        self.shared.engine().config.answers = answers;
    }

    /// Whether the VM's own requests to 168.63.129.16 are answered from now on.
    pub fn set_platform(&self, answering: bool) {
        self.shared.engine().config.platform = answering;
    }

    /// Keeps every frame from now on, at most `limit` of them.
    pub fn record(&self, limit: usize) {
        self.shared.engine().recorder.start(limit);
    }

    /// The frames kept so far.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.shared.engine().recorder.frames.clone()
    }

    /// What came in and was nobody's.
    pub fn strays(&self) -> Strays {
        self.shared.engine().strays
    }

    /// The namespace that it lives in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

fn serve(mut socket: PacketSocket, shared: &Shared) {
    let mut out = Vec::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let deadline = shared.engine().deadline();
        wait(&socket, shared, deadline);
        let now = Instant::now();
        out.append(&mut shared.outgoing());
        {
            let mut engine = shared.engine();
            // The device may be down for a while: then there is nothing to receive, and later there is.
            while let Ok(Some(frame)) = socket.receive() {
                engine.frame(frame, now, &mut out);
            }
            engine.tick(now, &mut out);
            for frame in &out {
                engine.recorder.take(frame, true);
            }
        }
        shared.changed.notify_all();
        for frame in out.drain(..) {
            // A device that is down loses frames, as a cable does.
            let _ = socket.send(&frame);
        }
    }
}

/// Until a frame comes, somebody wakes us, or the deadline passes.
fn wait(socket: &PacketSocket, shared: &Shared, deadline: Option<Instant>) {
    let longest = Duration::from_secs(1);
    let pause = deadline.map_or(longest, |at| at.saturating_duration_since(Instant::now()).min(longest));
    // Rounded up: waking early would spin until the deadline.
    let millis = u16::try_from(pause.as_micros().div_ceil(1000)).unwrap_or(1000);
    let mut fds =
        [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN)];
    // EINTR only makes this round come early.
    let _ = poll(&mut fds, PollTimeout::from(millis));
    let woken = fds[1].revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
    if woken {
        let _ = shared.wake.read();
    }
    // A socket in error (its device is down) is readable at once, for ever.
    let error = fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
    if error {
        thread::sleep(Duration::from_millis(10));
    }
}
