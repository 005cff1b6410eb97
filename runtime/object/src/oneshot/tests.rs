use super::*;
use alloc::sync::Arc;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

#[derive(Default)]
struct Count(AtomicUsize);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), Waker::from(count))
}

#[test]
fn a_value_sent_before_or_after_waiting_arrives_once() {
    let (count, waker) = counting();
    let mut context = Context::from_waker(&waker);
    let (sender, receiver) = oneshot();
    sender.send(1);
    assert_eq!(pin!(receiver).poll(&mut context), Poll::Ready(1));
    let (sender, receiver) = oneshot();
    let mut receiver = pin!(receiver);
    assert_eq!(receiver.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(receiver.as_mut().poll(&mut context), Poll::Pending);
    sender.send(2);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(receiver.as_mut().poll(&mut context), Poll::Ready(2));
    assert_eq!(receiver.as_mut().poll(&mut context), Poll::Pending);
}

#[test]
fn nothing_is_left_whoever_goes_first() {
    let value = Arc::new(());
    let (count, waker) = counting();
    let mut context = Context::from_waker(&waker);
    let (sender, receiver) = oneshot();
    drop(receiver);
    assert!(sender.is_closed());
    sender.send(value.clone());
    let (sender, receiver) = oneshot();
    sender.send(value.clone());
    drop(receiver);
    {
        let (sender, receiver) = oneshot();
        let mut receiver = std::boxed::Box::pin(receiver);
        assert!(receiver.as_mut().poll(&mut context).is_pending());
        drop(receiver);
        sender.send(value.clone());
    }
    assert_eq!((Arc::strong_count(&value), count.0.load(Ordering::SeqCst)), (1, 0));
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn a_large_value_has_a_slot_of_its_own() {
    let (sender, receiver) = oneshot();
    sender.send([7u64; 100]);
    let waker = Waker::noop();
    assert_eq!(pin!(receiver).poll(&mut Context::from_waker(waker)), Poll::Ready([7u64; 100]));
}

#[test]
fn races_of_two_threads_lose_neither_value_nor_wake_up() {
    for round in 0..if cfg!(miri) { 30 } else { 5_000 } {
        let (sender, receiver) = oneshot::<std::boxed::Box<u32>>();
        let thread = std::thread::spawn(move || sender.send(std::boxed::Box::new(round)));
        if round % 3 == 0 {
            drop(receiver);
        } else {
            let (count, waker) = counting();
            let mut context = Context::from_waker(&waker);
            let mut receiver = pin!(receiver);
            let mut polls = 0;
            loop {
                let seen = count.0.load(Ordering::SeqCst);
                if let Poll::Ready(value) = receiver.as_mut().poll(&mut context) {
                    assert_eq!(*value, round);
                    break;
                }
                polls += 1;
                if polls > 2 {
                    while count.0.load(Ordering::SeqCst) == seen {
                        std::thread::yield_now();
                    }
                }
            }
        }
        thread.join().unwrap();
    }
}
