internal import Posix
internal import Synchronization

// The locks of stripes in shared memory: a word each, which is 0 or the token of the session that holds the stripe.
extension ControlFile {
  /// Takes a stripe, whose flag in this process is taken.
  ///
  /// One that a dead process left behind is taken over. A living process keeps its stripes, however long it is stopped.
  ///
  /// System calls: none; `fcntl(2)` if another process has the stripe. A file that was deleted or moved away is noticed by the
  /// root's look at it, once a second: this library voids a file before it replaces it.
  ///
  /// - Returns: nil if the file was voided or overwritten, so that the words bind no other process: open it again.
  /// - Throws: `Session.Obstacle`; `FileError`.
  func tryTakeWord(of stripe: Int) throws -> Bool? {
    // First, because no session can begin where others found the file damaged, and lock its bytes.
    guard hasMagic else { return nil }
    let token = try session.token(in: self)
    do {
      try file.willStep(.takeStripe)
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return false
    }
    guard try exchangeWord(of: stripe, for: token) else { return isIntact(for: token) ? false : nil }
    // After the exchange: who voids the file takes the magic first, and then looks at the words.
    guard isIntact(for: token) else {
      freeWord(of: stripe)
      return nil
    }
    return true
  }

  private func exchangeWord(of stripe: Int, for token: UInt64) throws(FileError) -> Bool {
    let offset = ControlLayout.stripeOffset(stripe)
    // Acquiring, so that all that the last holder did is seen; and in one order with the look at the magic that follows.
    let (isTaken, holder) = file.withWord(at: offset, as: UInt64.self) {
      $0.compareExchange(expected: 0, desired: token, ordering: .sequentiallyConsistent)
    }
    if isTaken { return true }
    guard try isLeftover(holder) else { return false }
    return file.withWord(at: offset, as: UInt64.self) {
      $0.compareExchange(expected: holder, desired: token, ordering: .sequentiallyConsistent).exchanged
    }
  }

  /// Whether the process that put this into a stripe's word is gone. Asked by the one that has the stripe's flag.
  private func isLeftover(_ holder: UInt64) throws(FileError) -> Bool {
    // No thread of this process holds the stripe: the file had the word before.
    if holder == session.knownToken { return true }
    return try !isAlive(holder)
  }

  /// Frees a stripe, if the word still has this process's token. Releasing, so that the next holder sees what was done.
  ///
  /// It has another's where the file was overwritten meanwhile: that one's stripe is not this process's to free.
  func freeWord(of stripe: Int) {
    // Freeing it cannot fail.
    try? file.willStep(.freeStripe)
    let token = session.knownToken
    file.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
      _ = $0.compareExchange(expected: token, desired: 0, ordering: .releasing)
    }
  }

  /// Takes all stripes, whose flags in this process are taken, and frees them after a closure.
  ///
  /// - Returns: nil if another process holds one, or this one can hold none.
  func withAllWords<Result>(_ body: () throws -> Result) throws -> Result? {
    let token: UInt64
    do {
      token = try session.token(in: self)
    } catch is Session.Obstacle {
      return nil
    }
    var count = 0
    defer { for stripe in 0..<count { freeWord(of: stripe) } }
    while count < ControlLayout.stripeCount {
      guard try exchangeWord(of: count, for: token) else { return nil }
      count += 1
    }
    return try body()
  }

  /// The token of the living process that holds a stripe; nil if none does.
  func holder(of stripe: Int) throws(FileError) -> UInt64? {
    let holder = file.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
      $0.load(ordering: .acquiring)
    }
    guard holder != 0 else { return nil }
    if holder == session.knownToken { return holder }
    return try isAlive(holder) ? holder : nil
  }

  /// Whether the words bind other processes. If another program has written to the file, others find it damaged, or take
  /// this process for dead.
  private func isIntact(for token: UInt64) -> Bool {
    func value(at offset: Int) -> UInt64 {
      file.withWord(at: offset, as: UInt64.self) { $0.load(ordering: .sequentiallyConsistent) }
    }
    let slot = ControlLayout.sessionTokenOffset(ControlLayout.sessionNumber(of: token))
    return hasMagic && value(at: ControlLayout.versionOffset) == ControlLayout.version && value(at: slot) == token
  }

  private var hasMagic: Bool {
    file.withWord(at: ControlLayout.magicOffset, as: UInt64.self) { $0.load(ordering: .sequentiallyConsistent) }
      == ControlLayout.magic
  }
}

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
