public import BlobCache
internal import Locks
internal import Posix
public import SystemPackage

/// A password or token that is read when it is required. Its descriptions do not reveal it.
public struct Secret: Sendable {
  private enum Source: Sendable {
    case fixed(String)
    case read(@Sendable () throws -> String, BlockingRead<String>)
  }

  private let source: Source

  /// Creates a secret that a closure provides.
  ///
  /// - Parameter source: A closure that returns the current secret. It is called on a separate thread and may block.
  public init(_ source: @escaping @Sendable () throws -> String) { self.source = .read(source, BlockingRead()) }

  /// Returns a constant secret.
  ///
  /// - Parameter text: The secret.
  public static func fixed(_ text: String) -> Secret { Secret(fixed: text) }

  private init(fixed text: String) { source = .fixed(text) }

  /// Returns a secret in the trimmed first line of a file, which is read for each use and can be replaced.
  ///
  /// - Parameter path: The path of a file that other users must not be able to read.
  public static func file(_ path: FilePath) -> Secret { Secret { try SecretFile.firstLine(of: path) } }

  /// - Throws: Errors of the source; `RemoteSettingError` for an unusable file; `CancellationError`.
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
  public var customMirror: Mirror { Mirror(self, children: []) }
}

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

  private static func check(_ status: Stat, of path: FilePath) throws(RemoteSettingError) {
    guard status.type != .regular || !status.permissions.contains(.otherRead) else {
      throw RemoteSettingError("\(path)", "other users may read it; chmod o-r \(path) changes that")
    }
  }

  /// Checks that other users cannot read a file. A missing file is reported when it is opened.
  static func check(_ path: FilePath) throws(RemoteSettingError) {
    guard let status = try? path.stat() else { return }
    try check(status, of: path)
  }

  /// - Throws: `RemoteSettingError` if the file cannot be read or is not UTF-8, or if other users can read it.
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
        // Some editors write the byte order mark of UTF-8, which is no part of the text.
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
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
  /// The string, or `nil` if it is empty, because an empty environment variable counts as not set.
  var ifNotEmpty: String? { isEmpty ? nil : self }

  var hasControlCharacter: Bool { utf8.contains { $0 < 0x20 || $0 == 0x7F } }
}

extension StringProtocol {
  var trimmed: String {
    var rest = self[...]
    while rest.first?.isWhitespace == true { rest.removeFirst() }
    while rest.last?.isWhitespace == true { rest.removeLast() }
    return String(rest)
  }
}

/// Coalesces concurrent reads on one separate thread, because an unresponsive file server would block the thread pool.
final class BlockingRead<Value: Sendable>: Sendable {
  private let running = Lock<Outcome<Value>?>(nil)

  /// - Throws: Errors of the read; `Errno` if no thread can be created; `CancellationError`, while the read continues.
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
  /// Creates a key from the first line of a file, which is trimmed.
  ///
  /// - Parameter path: The path of a file with at least 16 bytes that other users must not be able to read.
  /// - Throws: `RemoteSettingError` for a file that cannot be read or that other users can read, and for a shorter key.
  public init(file path: FilePath) throws(RemoteSettingError) {
    let line = try SecretFile.firstLine(of: path)
    guard let key = RemoteSealKey(line.utf8) else {
      throw RemoteSettingError(
        "\(path)", "its first line has \(line.utf8.count) bytes, and a key for seals has 16 or more")
    }
    self = key
  }
}
