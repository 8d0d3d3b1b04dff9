import BlobRecord
import BlobStore
import TestSupport

extension HeldLocks {
  convenience init(in cache: Cache) throws { try self.init(in: cache.root) }
}

extension BlobKey {
  /// Returns keys of this form that share one stripe.
  static func sharingStripe(_ count: Int, _ form: (Int) -> String = { "\($0) key" }) -> [BlobKey] {
    var keys: [Int64: [BlobKey]] = [:]
    for number in 0... {
      let key = BlobKey(form(number))
      keys[key.stripe.lowerBound, default: []].append(key)
      if let found = keys[key.stripe.lowerBound], found.count == count { return found }
    }
    return []
  }

  /// The byte of the control file for the key's stripe, if the file name is the key.
  var stripe: Range<Int64> { ControlLayout.stripeByte(of: NameDigest.digest(ofFileName: string)) }
}
