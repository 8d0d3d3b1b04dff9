/// Which entries a `MemoryCache` evicts where it is over a limit.
public enum EvictionPolicy: String, CaseIterable, Sendable {
  /// The least recently used, in exact order.
  case lru
  /// W-TinyLFU: a scan over keys that are used once does not drive out frequent ones.
  ///
  /// New entries go into a window: 5 % of the cost where its limit is the nearer one, else 1 % of the entries. An entry
  /// that leaves the window stays only if it was used more often lately than each entry that would make room for it. A
  /// sketch of 4-bit counters estimates that, and is halved now and then. The rest is a segmented LRU, 80 % of it for
  /// entries that were used since they left the window. The sketch takes 8 to 16 bytes for each entry.
  ///
  /// Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions
  /// on Storage 13(4), 2017.
  ///
  /// It was chosen by measurement (Tools/Benchmarks). On generated traces its hit ratios are about those of S3-FIFO
  /// (SOSP 2023) and SIEVE (NSDI 2024) or better. Unlike SIEVE it keeps part of a loop that does not fit. Where
  /// popularity shifts often, `lru` may do better.
  case wTinyLFU
}
