import ArgumentParser
import BlobRecord
import Foundation
import Measuring
import MemoryCache

@main
struct MemoryBenchmarkCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "benchmark memory",
    abstract: "Measures the memory cache against other caches, and its policies on generated traces.",
    discussion: """
      100,000 entries, keys of 32 bytes, requests by Zipf's law with exponent 0.99, all of them hits. Contenders take \
      turns; times are medians of processor time, ratios are medians of the rounds' ratios. What two threads get through \
      is by the wall clock, which needs two processors to itself.

      Exit status: 0 done, 1 a threshold was missed (with --check), 64 usage.
      """)

  @Option(help: "Rounds, each of which gives one ratio. (default: 200; with --quick 7)")
  var rounds: Int?

  @Option(help: "Requests of each generated trace. (default: 1000000; with --quick 50000)")
  var traceLength: Int?

  @Flag(help: "Measure little, to see whether everything works.")
  var quick = false

  @Flag(help: "Compare with the limits.")
  var check = false

  func validate() throws {
    guard (rounds ?? 1) > 0, (traceLength ?? 10_000) >= 10_000 else {
      throw ValidationError("rounds are above zero, a trace has 10000 requests or more")
    }
  }

  func run() throws {
    let rounds = rounds ?? (quick ? 7 : 200)
    let material = HitMaterial(keyCount: 100_000, requestCount: quick ? 50_000 : 400_000)
    var results = hits(material, rounds: rounds)
    let throughput = ThroughputComparison(material, shards: 8, rounds: max(rounds / 10, 3))
    print(Self.line("two threads against one, 8 shards", throughput.ratios))
    print(Self.line("the same, by processor time", throughput.processorRatios))
    print(Self.line("two threads with a cache each", throughput.machineRatios))
    results.append(("two threads against one", throughput.ratios.median >= 1.3))
    printHitRatios()
    guard check else { return }
    let missed = results.filter { !$0.isKept }
    for (name, _) in missed { print("missed: \(name)") }
    if !missed.isEmpty { throw ExitCode(1) }
  }

  /// - Returns: The promises, and whether each one is kept.
  private func hits(_ material: HitMaterial, rounds: Int) -> [(name: String, isKept: Bool)] {
    let comparison = HitComparison(
      [
        .cpp(material), .memoryCache("MemoryCache, String", material, { $0 }),
        .memoryCache("MemoryCache, BlobKey", material, { BlobKey($0) }),
        .memoryCache("MemoryCache, String, wTinyLFU", material, { $0 }, policy: .wTinyLFU),
        .memoryCache("MemoryCache, String, 8 shards", material, { $0 }, shards: 8),
      ] + Contender.foundation(material) + [.dictionary(material)], material.positions, rounds: rounds)
    for (index, name) in comparison.names.enumerated() {
      let time = String(format: "%7.1f ns", comparison.time(index))
      print(Self.line("hit: \(name)", comparison.ratio(index, to: 0)) + time)
    }
    let prepared = comparison.ratio(5, to: 1)
    print(Self.line("hit: NSCache, NSString against MemoryCache", prepared))
    let foundation = comparison.ratio(6, to: 1)
    print(Self.line("hit: NSCache, String against MemoryCache", foundation))
    print(Self.line("hit: NSCache, String against the Dictionary", comparison.ratio(6, to: 7)))
    return [
      ("hit, String keys, at most 1.2 times C++", comparison.ratio(1, to: 0).median <= 1.2),
      ("hit, blob keys, at most 1.2 times C++", comparison.ratio(2, to: 0).median <= 1.2),
      ("NSCache, asked with String, at least 5 times MemoryCache", foundation.median >= 5),
    ]
  }

  private func printHitRatios() {
    print("\nhit ratios, capacity of 1 % and 10 % of the popular keys")
    print((["trace           ", "capacity"] + HitRatios.policies.map(\.name)).joined(separator: "  "))
    for line in HitRatios.measure(length: traceLength ?? (quick ? 50_000 : 1_000_000)) {
      let ratios = zip(line.ratios, HitRatios.policies).map { ratio, policy in
        Self.padded(String(format: "%.3f", ratio), policy.name.count, atEnd: false)
      }
      print(
        ([Self.padded(line.trace, 16), Self.padded("\(line.capacity)", 8, atEnd: false)] + ratios)
          .joined(separator: "  "))
    }
  }

  private static func line(_ name: String, _ ratios: Quartiles) -> String {
    padded(name, 44)
      + String(format: "ratio %.2f (%.2f to %.2f)  ", ratios.median, ratios.lower, ratios.upper)
  }

  private static func padded(_ text: String, _ width: Int, atEnd: Bool = true) -> String {
    let padding = String(repeating: " ", count: max(width - text.count, 0))
    return atEnd ? text + padding : padding + text
  }
}
