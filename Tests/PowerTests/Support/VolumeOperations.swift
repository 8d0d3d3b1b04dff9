import BlobStore
import FaultOperations
import TestSupport

/// Random operations on a volume's cache.
struct VolumeOperations {
  let keys: [String]
  private let byteCounts: [Int]
  private var generator: SeededGenerator
  private var count = 0

  static let files = [0, 448, 700, 5000, 20_000]
  /// With packs, most records are packed. Few are files, so that records move between packs and files.
  static let mostlyPacked = [0, 100, 448, 700, 1500, 3000, 5000]
  static let packed = [448, 700]

  /// - Parameter byteCounts: The payload sizes to choose from.
  init(keys: [String], byteCounts: [Int] = files, seed: UInt64) {
    self.keys = keys
    self.byteCounts = byteCounts
    generator = SeededGenerator(seed: seed)
  }

  mutating func next() -> FaultOperation {
    count += 1
    let key = keys.randomElement(using: &generator) ?? ""
    let byteCount = byteCounts.randomElement(using: &generator) ?? 0
    let payload = PayloadName("\(generator.next())", byteCount)
    switch Int.random(in: 0..<15, using: &generator) {
    case 0...2: return .store(key, payload)
    case 3, 4: return .storePieces(key, payload, locks: count.isMultiple(of: 4) ? .keep : .none)
    case 5, 6: return .store(key, payload, locks: .one)
    case 7: return .store(key, payload, locks: .keep)
    case 8, 9: return .lock(key)
    case 10: return .unlock(key)
    case 11: return .touch(key)
    case 12: return .load(key, touching: false)
    case 13: return .remove(key)
    default: return .collect(evicting: false)
    }
  }
}
