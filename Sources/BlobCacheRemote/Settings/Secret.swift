public import BlobCache
internal import Locks
internal import Posix
public import SystemPackage

/// A password or token that is asked for when it is needed. No description of it tells it.
public struct Secret: Sendable {
  private enum Source: Sendable {
    case fixed(String)
    case read(@Sendable () throws -> String, BlockingRead<String>)
  }

  private let source: Source

  /// - Parameter source: answers with the secret as it is now. It is called on a thread of its own, and may block.
  public init(_ source: @escaping @Sendable () throws -> String) { self.source = .read(source, BlockingRead()) }

  /// A secret that stays.
  ///
  /// - Parameter text: the secret.
  public static func fixed(_ text: String) -> Secret { Secret(fixed: text) }

  private init(fixed text: String) { source = .fixed(text) }

  /// The first line of a file, without spaces around it. It is read each time, so it may be replaced.
  ///
  /// - Parameter path: a file that other users may not read.
  public static func file(_ path: FilePath) -> Secret { Secret { try SecretFile.firstLine(of: path) } }

  /// The secret as it is now.
  ///
  /// - Throws: what the source throws; `RemoteSettingError` for a file that cannot be read, is empty, or that other users
  ///   may read; `CancellationError` if the task is cancelled.
  func text() async throws -> String {
    switch source {
    case .fixed(let text): text
    case .read(let source, let reads): try await reads.value(source)
    }
  }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "(secret)" }
  public var debugDescription: String { description }
  /// Nothing.
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// A small file that is for one user alone.
enum SecretFile {
  private static let maximumByteCount = 1 << 20

  static func firstLine(of path: FilePath) throws(RemoteSettingError) -> String {
    let text = try text(at: path)
    let line = text.split(whereSeparator: \.isNewline).first.map(String.init)?.trimmed ?? ""
    guard !line.isEmpty else {
      throw RemoteSettingError("\(path)", "the file is empty; its first line must be the secret")
    }
    return line
  }

  /// - Throws: `RemoteSettingError` if others than its owner and group may read it.
  private static func check(_ status: Stat, of path: FilePath) throws(RemoteSettingError) {
    guard status.type != .regular || !status.permissions.contains(.otherRead) else {
      throw RemoteSettingError("\(path)", "other users may read it; chmod o-r \(path) changes that")
    }
  }

  /// - Throws: `RemoteSettingError` if others may read it. A file that is not there is for who opens it.
  static func check(_ path: FilePath) throws(RemoteSettingError) {
    guard let status = try? path.stat() else { return }
    try check(status, of: path)
  }

  /// - Throws: `RemoteSettingError` if it cannot be read, is not UTF-8, or other users may read it.
  static func text(at path: FilePath) throws(RemoteSettingError) -> String {
    do {
      let file = try FileDescriptor.open(path, .readOnly)
      return try file.closeAfter {
        try check(try file.stat(), of: path)
        var bytes: [UInt8] = []
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 14, alignment: 1)
        defer { unsafe piece.deallocate() }
        while case let count = try unsafe file.read(into: piece), count > 0 {
          unsafe bytes += piece[..<count]
          guard bytes.count <= maximumByteCount else { throw Errno.fileTooLarge }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw Errno.illegalByteSequence }
        return text
      }
    } catch let error as RemoteSettingError {
      throw error
    } catch {
      throw RemoteSettingError("\(path)", "it cannot be read: \(error)")
    }
  }
}

extension String {
  /// nil for the empty text: a variable without a value counts as one that is not set.
  var ifNotEmpty: String? { isEmpty ? nil : self }

  /// Whether no field of HTTP takes it.
  var hasControlCharacter: Bool { utf8.contains { $0 < 0x20 || $0 == 0x7F } }
}

extension StringProtocol {
  /// Without white space at both ends.
  var trimmed: String {
    var rest = self[...]
    while rest.first?.isWhitespace == true { rest.removeFirst() }
    while rest.last?.isWhitespace == true { rest.removeLast() }
    return String(rest)
  }
}

/// Reads what may be slow to come, such as a file of a server that hangs: on a thread of its own, away from the tasks' threads.
///
/// All that ask while a read is under way get its result. So one that hangs keeps one thread.
final class BlockingRead<Value: Sendable>: Sendable {
  private let running = Lock<Outcome<Value>?>(nil)

  /// - Throws: what the read throws; `Errno` where the system has no thread to give; `CancellationError` if the task is
  ///   cancelled. The read goes on then.
  func value(_ read: @escaping @Sendable () throws -> Value) async throws -> Value {
    let (outcome, isBegun) = running.withLock { running -> (Outcome<Value>, Bool) in
      if let running { return (running, false) }
      let outcome = Outcome<Value>()
      running = outcome
      return (outcome, true)
    }
    if isBegun {
      do {
        try OwnedThread { [self] in end(outcome, Result { try read() }) }
      } catch {
        end(outcome, .failure(error))
      }
    }
    return try await outcome.value()
  }

  private func end(_ outcome: Outcome<Value>, _ result: Result<Value, any Error>) {
    running.withLock { $0 = nil }
    outcome.end(result)
  }
}

extension RemoteSealKey {
  /// A key whose bytes are the first line of a file, without spaces around it.
  ///
  /// - Parameter path: a file that other users may not read, of 16 bytes or more.
  /// - Throws: `RemoteSettingError` for a file that cannot be read, that other users may read, and for fewer bytes.
  public init(file path: FilePath) throws(RemoteSettingError) {
    let line = try SecretFile.firstLine(of: path)
    guard let key = RemoteSealKey(line.utf8) else {
      throw RemoteSettingError(
        "\(path)", "its first line has \(line.utf8.count) bytes, and a key for seals has 16 or more")
    }
    self = key
  }
}
