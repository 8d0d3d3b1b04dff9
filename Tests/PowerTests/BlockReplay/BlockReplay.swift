import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// Builds the disks that a power cut may leave of a session, and mounts and checks each of them.
struct BlockReplay {
  private let session: LoggedSession
  private let volume: Volume
  /// The image with all writes up to the last flush.
  private let durable: String
  private let directory: TemporaryDirectory

  init(_ session: LoggedSession) throws {
    self.session = session
    directory = try TemporaryDirectory(inMemory: true)
    durable = directory.path.string + "/durable"
    volume = try Volume(session.fileSystem, megabytes: session.fileSystem == .xfs ? 320 : 32, isMounted: false)
    try ChildProcess.runSuccessfully(["cp", "--sparse=always", session.base, durable])
  }

  /// - Returns: The violations.
  func check(states: Int, using generator: inout SeededGenerator) throws -> [String] {
    let entries = session.log.entries
    guard let start = session.steps.first?.began, let end = session.steps.last?.ended else { return [] }
    let candidates = entries.indices.filter { entries[$0].nanoseconds >= start && entries[$0].nanoseconds <= end }
    let points = (0..<states).compactMap { _ in candidates.randomElement(using: &generator) }.sorted()
    var violations: [String] = []
    var pending: [(offset: Int, bytes: Data)] = []
    var next = 0
    for point in points {
      while next <= point {
        switch entries[next].kind {
        case .write(let offset, let bytes): pending.append((offset, bytes))
        case .flush:
          try write(pending, to: durable)
          pending = []
        }
        next += 1
      }
      // The power is cut at the latest just before the next write reaches the disk.
      let time = next < entries.count ? entries[next].nanoseconds : .max
      try ChildProcess.runSuccessfully(["cp", "--sparse=always", durable, volume.image])
      try write(survivors(of: pending, using: &generator), to: volume.image)
      violations += try look(session.oracle(at: time)).map { "\(session.fileSystem), behind block \(point): \($0)" }
    }
    return violations
  }

  private func survivors(
    of pending: [(offset: Int, bytes: Data)], using generator: inout SeededGenerator
  ) -> [(offset: Int, bytes: Data)] {
    switch Int.random(in: 0..<5, using: &generator) {
    case 0: return pending
    case 1: return []
    case 2:
      // The last write is torn between two sectors.
      guard let last = pending.last else { return [] }
      let sectors = Int.random(in: 0...(last.bytes.count / 512), using: &generator)
      return pending.dropLast() + [(last.offset, last.bytes.prefix(sectors * 512))]
    default: return pending.filter { _ in Bool.random(using: &generator) }
    }
  }

  private func write(_ writes: [(offset: Int, bytes: Data)], to image: String) throws {
    let handle = try FileHandle(forWritingTo: URL(filePath: image))
    for write in writes {
      try handle.seek(toOffset: UInt64(write.offset))
      try handle.write(contentsOf: write.bytes)
    }
    try handle.close()
  }

  private func look(_ oracle: PowerCutOracle) throws -> [String] {
    do {
      try volume.mount()
    } catch {
      return ["the volume is lost: \(error)"]
    }
    let found = Result {
      var settings = StoreSettings(directory: FilePath(volume.cache))
      settings.durability = session.durability
      settings.packs = session.packs
      if session.packs { try NextBoot.begin(in: volume.cache) }
      return oracle.violations(in: try DirectoryState(inspecting: settings))
    }
    try volume.unmount()
    return try found.get()
  }
}
