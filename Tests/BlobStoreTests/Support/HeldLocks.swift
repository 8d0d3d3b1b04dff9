import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport

/// Locks of the control file that another process has, for all that stores can tell: it has opened the file itself.
final class HeldLocks: Sendable {
  private let file: OpenFile

  init(in cache: Cache) throws {
    guard let root = try Directory(at: cache.root, files: Files()),
      case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite)
    else { throw CocoaError(.fileNoSuchFile) }
    self.file = file
  }

  /// - Returns: whether they could be had.
  func take(_ bytes: Range<Int64>) throws -> Bool { try file.tryLock(bytes: bytes) }

  func giveBack(_ bytes: Range<Int64>) throws { try file.unlock(bytes: bytes) }
}

extension BlobKey {
  /// Keys of this form with one stripe.
  static func sharingStripe(_ count: Int, _ form: (Int) -> String = { "\($0) key" }) -> [BlobKey] {
    var keys: [Int64: [BlobKey]] = [:]
    for number in 0... {
      let key = BlobKey(form(number))
      keys[key.stripe.lowerBound, default: []].append(key)
      if let found = keys[key.stripe.lowerBound], found.count == count { return found }
    }
    return []
  }

  /// The byte of the control file that a change of the key locks, where file names are keys.
  var stripe: Range<Int64> { ControlLayout.stripeByte(of: NameDigest.digest(ofFileName: string)) }
}
