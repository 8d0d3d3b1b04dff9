internal import BlobRecord
internal import Synchronization

/// A listener for the announcements of other machines, which reconnects when the connection breaks.
final class RemoteListener: Sendable {
  private let engine: any RemoteAnnouncing
  private let channel: String
  private let clock: any Clock<Duration>
  private let pause: @Sendable (Int) -> Duration

  init(
    _ engine: any RemoteAnnouncing, channel: String, clock: any Clock<Duration>,
    pause: @escaping @Sendable (Int) -> Duration
  ) {
    self.engine = engine
    self.channel = channel
    self.clock = clock
    self.pause = pause
  }

  /// Listens until the task is cancelled.
  ///
  /// - Parameter hasMissed: Called after each new connection, because announcements may have been missed before it.
  func run(
    receive: @Sendable (String) async -> Void, hasMissed: @Sendable () -> Void,
    fails: @Sendable (any Error) -> Void
  ) async {
    var failures = 0
    while !Task.isCancelled {
      do {
        let texts = try await engine.announcements(on: channel)
        hasMissed()
        failures = 0
        for try await text in texts { await receive(text) }
      } catch {
        guard !Task.isCancelled else { return }
        fails(error)
      }
      failures += 1
      // The only error of `sleep` is the cancellation, which ends the loop.
      try? await clock.sleep(for: pause(failures))
    }
  }
}

/// An announcement of one machine to the others: the engine has stored or removed the blob of a key.
///
/// Its text has five fields: `blobcache1`, the sender, `put` and a checksum or `remove` and `-`, and the key in Base64.
struct Announcement: Hashable, Sendable {
  let sender: String
  let key: BlobKey
  /// The checksum of the new payload, or `nil` for a removal.
  let checksum: UInt32?

  private static let version = "blobcache1"
  /// The maximum length, which suffices for a key of 65,536 bytes in Base64 and the other fields.
  private static let longest = 100_000

  var text: String {
    let what = checksum.map { "put \(String($0, radix: 16))" } ?? "remove -"
    return "\(Self.version) \(sender) \(what) \(Data(key.string.utf8).base64EncodedString())"
  }

  init(sender: String, key: BlobKey, checksum: UInt32?) {
    self.sender = sender
    self.key = key
    self.checksum = checksum
  }

  init?(_ text: String) {
    guard text.utf8.count <= Self.longest else { return nil }
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 5, parts[0] == Self.version, let key = Data(base64Encoded: String(parts[4])),
      let string = String(validating: key, as: UTF8.self)
    else { return nil }
    switch (parts[2], UInt32(parts[3], radix: 16)) {
    case ("put", let checksum?): self.checksum = checksum
    case ("remove", nil): checksum = nil
    default: return nil
    }
    sender = String(parts[1])
    self.key = BlobKey(string)
  }
}
