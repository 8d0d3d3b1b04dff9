import BlobStore
import Foundation
import Posix
import Synchronization
package import SystemPackage

/// Locks of the control file that appear to be held by another process, because they have a separate open file and
/// session.
package final class HeldLocks: Sendable {
  private let file: OpenFile
  private let memory: MappedFile
  package let token: UInt64

  /// - Parameter root: The root of a cache with a control file.
  package init(in root: FilePath) throws {
    guard let root = try Directory(at: root, files: Files()),
      case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite)
    else { throw CocoaError(.fileNoSuchFile) }
    let memory = try file.map(byteCount: ControlLayout.byteCount)
    // Stores use the first slots.
    guard
      let number = try (0..<ControlLayout.sessionCount).reversed().first(where: {
        try file.tryLock(bytes: ControlLayout.sessionByte($0))
      })
    else { throw CocoaError(.fileLocking) }
    guard try file.tryLock(bytes: ControlLayout.stripeBytes, isShared: true) else { throw CocoaError(.fileLocking) }
    let token = ControlLayout.newToken(for: number)
    memory.withWord(at: ControlLayout.sessionTokenOffset(number), as: UInt64.self) {
      $0.store(token, ordering: .sequentiallyConsistent)
    }
    memory.withWord(at: ControlLayout.sessionProcessOffset(number), as: Int64.self) {
      $0.store(Int64(CurrentProcess.identifier), ordering: .relaxed)
    }
    self.token = token
    self.file = file
    self.memory = memory
  }

  /// - Parameter bytes: The lock bytes to take. For a byte of a stripe, the stripe is taken in shared memory.
  /// - Returns: A Boolean value that indicates whether all of them were taken.
  package func take(_ bytes: Range<Int64>) throws -> Bool {
    for stripe in stripes(bytes) {
      let isTaken = memory.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
        $0.compareExchange(expected: 0, desired: token, ordering: .sequentiallyConsistent).exchanged
      }
      guard isTaken else {
        for taken in stripes(bytes).lowerBound..<stripe { free(taken) }
        return false
      }
    }
    return try others(bytes).isEmpty || file.tryLock(bytes: others(bytes))
  }

  package func giveBack(_ bytes: Range<Int64>) throws {
    for stripe in stripes(bytes) { free(stripe) }
    if !others(bytes).isEmpty { try file.unlock(bytes: others(bytes)) }
  }

  private func free(_ stripe: Int) {
    memory.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
      $0.store(0, ordering: .sequentiallyConsistent)
    }
  }

  private func stripes(_ bytes: Range<Int64>) -> Range<Int> {
    let range = bytes.clamped(to: ControlLayout.stripeBytes)
    return Int(range.lowerBound)..<Int(range.upperBound)
  }

  private func others(_ bytes: Range<Int64>) -> Range<Int64> {
    max(
      bytes.lowerBound, ControlLayout.stripeBytes.upperBound)..<max(
        bytes.upperBound, ControlLayout.stripeBytes.upperBound)
  }
}
