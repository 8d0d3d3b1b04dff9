package import BlobRecord
internal import BlobStore
internal import Foundation

/// Random operations and clock steps, with few keys, including hostile ones, so that operations affect each other.
package struct RandomOperations: Sendable {
  package var generator: SeededGenerator
  private let keys: [BlobKey]

  package init(seed: UInt64, naming: RecordNaming) {
    generator = SeededGenerator(seed: seed)
    // Some keys are invalid in any naming; with more of them, fewer operations would have an effect.
    keys = Self.plainKeys + Self.hostileKeys.shuffled(using: &generator).prefix(naming == .verbatim ? 12 : 16)
  }

  package static let plainKeys: [BlobKey] = ["a", "ab", "abc", "abd", "b", "key 1", "key 2", "image.png"]

  /// Keys with characters that are special for paths, file systems or text.
  package static let hostileKeys: [BlobKey] = [
    "", ".", "..", "../up", "/", "/etc/passwd", "a/b", "a//b", ".hidden", ".tmp-1", ".quarantine", ".blobcache",
    "%", "%2F", "%2f", "%41", "a%", "nul\0byte", "\u{1}\n\u{7F}", "-rf", "*", "~", "\\", "é", "e\u{301}",
    "e\u{301}\u{302}x", "\u{1F600}", "a\u{1F600}", "a\u{1F600}b", "\u{FEFF}", "\u{202E}evil", "\u{0}",
    "con", "CON", "Abc", "aB", " ", "  ", ".. ",
    BlobKey(String(repeating: "k", count: 255)), BlobKey(String(repeating: "k", count: 256)),
    BlobKey(String(repeating: "/", count: 85)), BlobKey(String(repeating: "/", count: 86)),
    BlobKey("x" + String(repeating: "\u{1F600}", count: 63)), BlobKey(String(repeating: "\u{1F600}", count: 64)),
  ]

  private static let sizes = [0, 1, 63, 64, 65, 500, 4032, 4096, 9000, 20_001]

  private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

  private mutating func pick<Element>(_ elements: [Element]) -> Element { elements.randomElement(using: &generator)! }

  /// Returns the step of the clock before the next operation: mostly none, often to a time around an expiry, and
  /// sometimes back.
  package mutating func clockStep(_ model: StoreModel) -> Int64 {
    switch Int.random(in: 0..<100, using: &generator) {
    case ..<50: return 0
    case ..<70: return Int64.random(in: 1...3, using: &generator)
    case ..<80: return Int64.random(in: 10...700, using: &generator)
    case ..<85: return -Int64.random(in: 1...700, using: &generator)
    case ..<87: return pick([-1_000_000, 100_000])
    default:
      // Sorted, because the order of a dictionary does not depend on the seed.
      let keys = model.records.keys.sorted(by: BlobKey.precedes)
      guard let key = keys.randomElement(using: &generator), let header = model.records[key]?.header else { return 0 }
      let expiry = header.expiry(defaultExpiration: model.defaultExpiration).seconds
      let step = expiry.subtractingReportingOverflow(model.now.seconds)
      guard !step.overflow, abs(step.partialValue) < 10_000 else { return 1 }
      return step.partialValue + pick([-1, 0, 0, 1, 1])
    }
  }

  package mutating func next() -> StoreOperation {
    let key = pick(keys)
    switch Int.random(in: 0..<1000, using: &generator) {
    case ..<210: return store(key)
    case ..<380: return .load(key, touching: chance(80))
    case ..<410: return .read(key, touching: chance(80))
    case ..<440: return .loadFirst(prefix: pick(["", "a", "ab", "abc", "k", "zz", "%", ".", "/", "e\u{301}", "é"]))
    case ..<510: return .touch(key)
    case ..<610: return .lock(key)
    case ..<720: return .unlock(key, force: chance(20))
    case ..<790: return .remove(key)
    case ..<794: return .removeAll(.all)
    case ..<800: return .removeAll(chance(50) ? .locked : .unlocked)
    case ..<825: return .setExtendedData(key, extendedData())
    case ..<840: return .extendedData(key)
    case ..<860: return .contains(key)
    case ..<920: return .header(key)
    case ..<940: return .records(prefix: pick(["", "a", "ab", "key", ".", "%", "e", "é", "e\u{301}", "\u{1F600}"]))
    case ..<955: return .usage
    case ..<965: return .verify
    case ..<975: return .collect(dryRun: true)
    default: return .collect(dryRun: false)
    }
  }

  /// Returns extended data whose new extension fits before the old one, does not fit, or is refused.
  private mutating func extendedData() -> Data { Data(generator.bytes(pick([0, 1, 16, 40, 500, 4096, 4097]))) }

  private mutating func store(_ key: BlobKey) -> StoreOperation {
    let payload = Data(generator.bytes(pick(Self.sizes)))
    let timeToLive: Duration? = pick([
      nil, nil, nil, .seconds(1), .milliseconds(1500), .nanoseconds(1), .seconds(60), .seconds(600), .seconds(86_400),
      .seconds(Int64.max),
    ])
    if chance(3) {
      return .store("plain", Data(), ttl: pick([.zero, .seconds(-1)]), locks: .none)
    }
    let locks: BlobStore.LockPolicy = pick([.none, .none, .none, .none, .one, .one, .keep, .keep, .keepOrOne])
    switch Int.random(in: 0..<100, using: &generator) {
    case ..<10: return .storeContents(key, payload, ttl: timeToLive, locks: locks)
    case ..<20: return .storePieces(key, payload, ttl: timeToLive, locks: locks)
    case ..<27: return .storeVisibly(key, payload, ttl: timeToLive, locks: locks)
    case ..<35: return .storeExtended(key, payload, extendedData: extendedData())
    default: return .store(key, payload, ttl: timeToLive, locks: locks)
    }
  }
}
