//! Articles that look like those of an encyclopedia to whatever compresses and indexes them: words by Zipf's law, of which
//! some follow others more often than chance has it, and lengths by a log-normal law. Nothing is repeated whole.

use std::sync::LazyLock;

use super::events::Random;

/// Different words.
const WORDS: u64 = 60_000;

/// How many articles have so many bytes in the middle, and how wide it spreads: 3.5 kB in the mean, some beyond 300 kB.
const LENGTH_MEDIAN: f64 = 1500.0;
const LENGTH_SPREAD: f64 = 1.3;
const LENGTH_MAX: f64 = 1e6;

const SYLLABLES: [&str; 40] = [
    "a", "al", "an", "ar", "ba", "be", "ca", "co", "da", "de", "di", "do", "e", "el", "en", "er",
    "es", "fa", "ge", "ha", "i", "in", "is", "ka", "la", "le", "li", "lo", "ma", "mi", "na", "ne",
    "no", "on", "or", "ra", "re", "sa", "ta", "ti",
];

/// By rank: what is said often is short.
static VOCABULARY: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut random = Random::new(7);
    let word = |rank: u64| {
        let syllables = 1 + u64::from(rank.ilog2()) / 5 + random.below(2);
        let parts = (0..syllables).map(|_| SYLLABLES[random.below(40) as usize]);
        parts.collect::<String>()
    };
    (1..=WORDS).map(word).collect()
});

/// A rank by Zipf's law, by the inverse of an integral: exact enough for what is compressed.
fn zipf(random: &mut Random, ranks: u64) -> u64 {
    let rank = (f64::from(random.unit()) * (ranks as f64).ln()).exp();
    (rank as u64).min(ranks - 1)
}

/// A number of the standard normal distribution, by the sum of twelve.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| f64::from(random.unit())).sum::<f64>() - 6.0
}

/// A text of so many bytes and up to a word more.
pub(super) fn words(random: &mut Random, bytes: usize) -> String {
    let vocabulary = &*VOCABULARY;
    let mut text = String::with_capacity(bytes + 32);
    let (mut rank, mut left) = (0, 0);
    while text.len() < bytes {
        // A third of the words are drawn by the one before.
        rank = match random.below(3) {
            0 => (rank * 31 + 17) % WORDS,
            _ => zipf(random, WORDS),
        };
        if left == 0 {
            left = 6 + random.below(18);
            if !text.is_empty() {
                text.push_str(". ");
            }
        } else {
            text.push(' ');
        }
        left -= 1;
        text.push_str(&vocabulary[rank as usize]);
    }
    text
}

/// The text of an article.
pub(super) fn article(random: &mut Random) -> String {
    let length = LENGTH_MEDIAN * (normal(random) * LENGTH_SPREAD).exp();
    words(random, length.clamp(20.0, LENGTH_MAX) as usize)
}

/// Name and number of who has written it; a tenth of the authors have none.
pub(super) fn author(random: &mut Random) -> (String, i64) {
    match random.below(10) {
        0 => (String::new(), 0),
        _ => {
            let number = zipf(random, 5_000_000) + 1;
            (
                format!("{}{number}", VOCABULARY[(number % WORDS) as usize]),
                number as i64,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_have_the_lengths_and_words_of_articles() {
        let mut random = Random::new(1);
        let articles: Vec<String> = (0..3000).map(|_| article(&mut random)).collect();
        let mean = articles.iter().map(String::len).sum::<usize>() / articles.len();
        assert!((2500..5000).contains(&mean), "{mean}");
        let mut sorted: Vec<&String> = articles.iter().collect();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), articles.len());
        let of_all: usize = articles.iter().map(|text| text.split(' ').count()).sum();
        let first = articles.iter().flat_map(|text| text.split(' '));
        let often = first.filter(|word| *word == VOCABULARY[1]).count();
        // By Zipf's law, one of ln 60,000 words, less those that follow others.
        assert!(often * 50 > of_all, "{often} of {of_all}");
    }
}
