// LRU over the protocol of ../PROTOCOL.md: rustc -O lru.rs, then --policy exec:./lru.
// Blocks outside the demand are a queue in the order of their last use. An entry is stale if the block
// has left the queue since, or has joined it again. The program serves 8 streams at once, each with its own
// queue. It sends answers when it has read all messages that have arrived.
use std::collections::VecDeque;
use std::io::{self, BufReader, BufWriter, Error, ErrorKind, Read, Write};

#[derive(Default)]
struct Lru {
    order: VecDeque<(usize, u64)>, // a block and the number of its entry
    entry: Vec<u64>,               // the entry of each block, 0 outside the queue
    entries: u64,
}

impl Lru {
    fn reset(&mut self, blocks: usize) {
        *self = Lru { entry: vec![0; blocks], ..Lru::default() };
    }

    fn push(&mut self, block: usize) {
        self.entries += 1;
        self.entry[block] = self.entries;
        self.order.push_back((block, self.entries));
    }

    fn pop(&mut self) -> Option<usize> {
        while let Some((block, entry)) = self.order.pop_front() {
            if self.entry[block] == entry {
                self.entry[block] = 0;
                return Some(block);
            }
        }
        None
    }
}

// The number of a key in one line of JSON with numbers alone.
fn number(json: &str, key: &str) -> Option<usize> {
    let rest = json.split(&format!("\"{key}\":")).nth(1)?;
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn answer(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    out.write_all(&(content.len() as u32 + 1).to_le_bytes())?;
    out.write_all(&[kind])?;
    out.write_all(content)
}

fn main() -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let (mut head, mut content) = ([0u8; 5], Vec::new());
    let mut streams: [Lru; 8] = Default::default();
    let mut lru = &mut streams[0];
    loop {
        if input.buffer().is_empty() {
            out.flush()?; // all answers, before the program waits
        }
        match input.read_exact(&mut head) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        content.resize(length - 1, 0);
        input.read_exact(&mut content)?;
        let words = || content.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize);
        match head[4] {
            b'H' => answer(&mut out, b'H', br#"{"protocol": 1, "needs": [], "streams": 8}"#)?,
            b'S' => lru = &mut streams[words().next().unwrap_or(0) % 8],
            b'R' => {
                let blocks = number(&String::from_utf8_lossy(&content), "blocks");
                lru.reset(blocks.ok_or(Error::new(ErrorKind::InvalidData, "a stream without blocks"))?);
            }
            b'U' => {
                let lengths: Vec<usize> = words().skip(2).take(5).collect(); // Offered, Hit, Miss, Exit, Pass
                let list = |i: usize| words().skip(7 + lengths[..i].iter().sum::<usize>()).take(lengths[i]);
                list(3).for_each(|x| lru.push(x));
                list(0).for_each(|x| lru.push(x));
                list(1).for_each(|x| lru.entry[x] = 0);
            }
            b'E' => {
                let n = words().next().unwrap_or(0);
                let victims: Vec<u8> = (0..n).map_while(|_| lru.pop()).flat_map(|x| (x as u32).to_le_bytes()).collect();
                answer(&mut out, b'V', &victims)?;
            }
            _ => {}
        }
    }
}
