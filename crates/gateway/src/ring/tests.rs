use super::*;

/// A ring and what its readers see, driven by hand.
fn ring(events: usize, slow: Slow) -> Arc<Ring> {
    let history = History { events, age: None };
    Arc::new(Ring::new(history, slow, Arc::default()))
}

fn publish(ring: &Ring, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let payload = Bytes::from(number.to_string());
        ring.try_publish(&payload, true, "")
            .expect("nobody is waited for");
    }
}

/// What a reader gets until it has to wait: payloads, gaps as `gap MISSED`, ends by their reason.
fn read(reader: &mut Reader) -> Vec<String> {
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = Vec::new();
    loop {
        let mut taken = Vec::new();
        let step = reader.poll_step(&mut context, 1, |entry| {
            taken.push(String::from_utf8_lossy(entry.message.payload()).into_owned());
        });
        match step {
            Poll::Pending => return seen,
            Poll::Ready(Step::Events) => seen.append(&mut taken),
            Poll::Ready(Step::Gap { missed, .. }) => seen.push(format!("gap {missed:?}")),
            Poll::Ready(Step::End(end)) => {
                seen.push(end.reason().to_owned());
                return seen;
            }
        }
    }
}

fn id(ring: &Ring, sequence: u64) -> From {
    From::After(ring.id(sequence).to_string())
}

#[test]
fn a_reader_gets_what_comes_from_then_on() {
    let ring = ring(10, Slow::DropOldest);
    publish(&ring, 1..3);
    let mut reader = Reader::new(&ring, &From::Now);
    assert_eq!(read(&mut reader), [""; 0]);
    publish(&ring, 3..5);
    assert_eq!(read(&mut reader), ["3", "4"]);
}

#[test]
fn one_who_comes_back_goes_on_behind_his_last_event() {
    let ring = ring(10, Slow::DropOldest);
    publish(&ring, 1..31);
    assert_eq!(
        read(&mut Reader::new(&ring, &id(&ring, 27))),
        ["28", "29", "30"]
    );
    assert_eq!(read(&mut Reader::new(&ring, &id(&ring, 30))), [""; 0]);
    // The last ten are kept for him: 21 to 30.
    assert_eq!(read(&mut Reader::new(&ring, &id(&ring, 20)))[0], "21");
    let late = read(&mut Reader::new(&ring, &id(&ring, 17)));
    assert_eq!(late[..2], ["gap Some(3)", "21"]);
    assert_eq!(late.len(), 11);
}

// rules: E14
#[test]
fn an_id_that_is_not_known_is_a_gap() {
    let ring = ring(10, Slow::DropOldest);
    publish(&ring, 1..4);
    let mut others = [
        "nonsense".to_owned(),
        "zz-1".to_owned(),
        ring.id(4).to_string(),
    ]
    .into_iter();
    assert!(others.all(|id| {
        read(&mut Reader::new(&ring, &From::After(id))) == ["gap None", "1", "2", "3"]
    }));
}

#[test]
fn two_rings_have_other_ids() {
    let (a, b) = (ring(10, Slow::DropOldest), ring(10, Slow::DropOldest));
    publish(&a, 1..4);
    publish(&b, 1..4);
    assert_eq!(read(&mut Reader::new(&b, &id(&a, 2)))[0], "gap None");
}

#[test]
fn old_events_are_not_for_those_who_come_back() {
    let history = History {
        events: 10,
        age: Some(Duration::ZERO),
    };
    let ring = Arc::new(Ring::new(history, Slow::DropOldest, Arc::default()));
    publish(&ring, 1..4);
    let until = Instant::now();
    while Instant::now() <= until {
        std::hint::spin_loop();
    }
    assert_eq!(
        read(&mut Reader::new(&ring, &id(&ring, 1))),
        ["gap Some(2)"]
    );
}

#[test]
fn who_falls_behind_all_that_is_held_is_told() {
    let behind = |slow| {
        let ring = ring(0, slow);
        let mut reader = Reader::new(&ring, &From::Now);
        publish(&ring, 1..LIVE_EVENTS + 4);
        read(&mut reader)
    };
    let dropped = behind(Slow::DropOldest);
    assert_eq!(dropped[..2], ["gap Some(3)", "4"]);
    assert_eq!(dropped.len(), LIVE_EVENTS + 1);
    let newest = (LIVE_EVENTS + 3).to_string();
    assert_eq!(
        behind(Slow::Latest),
        [format!("gap Some({})", LIVE_EVENTS + 2), newest]
    );
    assert_eq!(behind(Slow::Disconnect), ["slow"]);
}

#[test]
fn one_who_is_waited_for_loses_nothing() {
    let ring = ring(0, Slow::Wait);
    let mut reader = Reader::new(&ring, &From::Now);
    publish(&ring, 0..LIVE_EVENTS);
    let more = Bytes::from_static(b"more");
    assert!(ring.try_publish(&more, true, "").is_err());
    let mut context = Context::from_waker(Waker::noop());
    assert!(reader.poll_step(&mut context, 1, |_| {}).is_ready());
    assert!(ring.try_publish(&more, true, "").is_ok());
    assert!(ring.try_publish(&more, true, "").is_err());
    // One that has gone is waited for no more.
    drop(reader);
    assert!(ring.try_publish(&more, true, "").is_ok());
}

#[test]
fn one_who_reads_nothing_is_given_up() {
    let ring = ring(0, Slow::Wait);
    let mut stuck = Reader::new(&ring, &From::Now);
    publish(&ring, 0..LIVE_EVENTS);
    let mut late = Reader::new(&ring, &From::Now);
    ring.cut_slowest();
    assert!(
        ring.try_publish(&Bytes::from_static(b"more"), true, "")
            .is_ok()
    );
    assert_eq!(read(&mut stuck), ["slow"]);
    assert_eq!(read(&mut late), ["more"]);
}

#[test]
fn bytes_are_bounded_and_counted_for_the_topic() {
    let total: Arc<AtomicUsize> = Arc::default();
    let ring = Ring::new(History::default(), Slow::DropOldest, Arc::clone(&total));
    let long = Bytes::from(vec![b'x'; 3 << 20]);
    for _ in 0..20 {
        ring.try_publish(&long, true, "")
            .expect("nobody is waited for");
    }
    let held = total.load(Ordering::Relaxed);
    assert!(held <= RING_BYTES_MAX + 2 * (3 << 20) + 100, "{held}");
    ring.shrink();
    assert!(total.load(Ordering::Relaxed) < held);
    drop(ring);
    assert_eq!(total.load(Ordering::Relaxed), 0);
}

#[test]
fn an_end_comes_behind_the_last_event() {
    let ring = ring(10, Slow::DropOldest);
    let mut reader = Reader::new(&ring, &From::Now);
    publish(&ring, 1..3);
    ring.end(End::Stopping);
    assert_eq!(read(&mut reader), ["1", "2", "restart"]);
}

#[test]
fn an_event_is_encoded_with_its_id() {
    let ring = ring(10, Slow::DropOldest);
    let mut reader = Reader::new(&ring, &From::Now);
    ring.try_publish(&Bytes::from_static(b"a\nb"), true, "tick")
        .expect("nobody is waited for");
    ring.note_gap();
    let mut text = String::new();
    let mut context = Context::from_waker(Waker::noop());
    let step = reader.poll_step(&mut context, 1000, |entry| {
        text.push_str(&String::from_utf8_lossy(&entry.sse));
    });
    assert!(step.is_ready());
    let (one, two) = (ring.id(1), ring.id(2));
    let expect = format!(
        "id: {one}\nevent: tick\ndata: a\ndata: b\n\nid: {two}\nevent: gap\ndata: {{\"missed\":null}}\n\n"
    );
    assert_eq!(text, expect);
}

/// Readers that come back at any point see each event once.
// rules: E14
#[test]
fn nothing_is_lost_or_doubled_over_many_returns() {
    let ring = ring(LIVE_EVENTS, Slow::DropOldest);
    let mut last: Option<u64> = None;
    let mut seen = Vec::new();
    for round in 0..1000_usize {
        let from = last.map_or(From::Now, |last| id(&ring, last));
        let mut reader = Reader::new(&ring, &from);
        publish(&ring, round * 3..round * 3 + round % 4);
        for text in read(&mut reader) {
            seen.push(text);
            last = Some(seen.len() as u64);
        }
        // What comes while he is away.
        drop(reader);
        if last.is_some() {
            publish(&ring, round..round + 1);
        }
    }
    let reader = &mut Reader::new(&ring, &id(&ring, seen.len() as u64));
    seen.extend(read(reader));
    assert!(seen.iter().all(|text| !text.starts_with("gap")));
    assert_eq!(seen.len() as u64, ring.lock().head() - 1);
}

#[tokio::test]
async fn a_ring_is_deserted_when_its_last_reader_has_gone() {
    let ring = ring(10, Slow::DropOldest);
    let one = Reader::new(&ring, &From::Now);
    let two = Reader::new(&ring, &From::Now);
    let linger = Duration::from_millis(1);
    let watching = Arc::clone(&ring);
    let mut deserted = std::pin::pin!(watching.deserted(linger));
    let is_read = |waited: Result<(), tokio::time::error::Elapsed>| waited.is_err();
    drop(one);
    assert!(is_read(
        tokio::time::timeout(20 * linger, &mut deserted).await
    ));
    drop(two);
    deserted.await;
}
