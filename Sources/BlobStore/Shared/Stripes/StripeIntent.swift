/// The announcement of a change of a packed record, in its stripe. A process that takes the stripe from a dead one finishes
/// the change by it (Spec/Packs.md).
struct StripeIntent: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  enum Kind: UInt64, Sendable {
    /// The record at the address is written or replaced.
    case record = 1
    /// The record at the address takes the place of a file, which goes then.
    case fromFile = 2
    /// A file takes the place of the record at the address, which goes then.
    case toFile = 3
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// - Parameter address: below 2^56.
  init(_ kind: Kind, at address: UInt64) { rawValue = kind.rawValue << 56 | address }

  /// nil for a number that no version gives, which announces nothing.
  var kind: Kind? { Kind(rawValue: rawValue >> 56) }

  var address: UInt64 { rawValue & (1 << 56 - 1) }
}
