public import BlobRecord
public import SystemPackage

/// An error of the cache itself, in contrast to errors of the store (`BlobStoreError`), of producers, and
/// `CancellationError`.
public struct BlobCacheError: Error, Sendable {
  public let code: Code
  /// A description of the failure in a sentence.
  public let message: String
  public let key: BlobKey?
  /// The path of the directory.
  public let path: FilePath?
  /// The underlying error, such as the error of a decoder.
  public let cause: (any Error)?

  /// The kind of failure. More may be added, so a `switch` needs a default.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: String {
      case closed, invalidConfiguration, noCacheDirectory, undecodableValue, unencodableValue, writeFailed
      case recursiveProduction, noThread, writerEnded, invalidRange, sizeMismatch, superseded
    }

    private let kind: Kind
    private init(_ kind: Kind) { self.kind = kind }

    /// The cache was closed.
    public static let closed = Code(.closed)
    /// A setting is invalid, or differs from another cache of this process on the same directory.
    public static let invalidConfiguration = Code(.invalidConfiguration)
    /// The platform has no cache directory, or the name is not a valid directory name.
    public static let noCacheDirectory = Code(.noCacheDirectory)
    /// The blob is sound but cannot be decoded to a value; `cause` is the decoder's error.
    public static let undecodableValue = Code(.undecodableValue)
    /// The value cannot be encoded; `cause` is the encoder's error.
    public static let unencodableValue = Code(.unencodableValue)
    /// A staged blob could not be written; `cause` is the error.
    public static let writeFailed = Code(.writeFailed)
    /// A producer requested the key that it is producing.
    public static let recursiveProduction = Code(.recursiveProduction)
    /// The system cannot create a thread.
    public static let noThread = Code(.noThread)
    /// The writer was committed or discarded, or another call is in progress.
    public static let writerEnded = Code(.writerEnded)
    /// A range of bytes is outside the object.
    public static let invalidRange = Code(.invalidRange)
    /// A closure has fetched more or fewer bytes than requested.
    public static let sizeMismatch = Code(.sizeMismatch)
    /// The key was stored or removed while a stream of it began.
    public static let superseded = Code(.superseded)

    public var description: String { kind.rawValue }
  }

  init(
    _ code: Code, _ message: String, key: BlobKey? = nil, path: FilePath? = nil, cause: (any Error)? = nil
  ) {
    self.code = code
    self.message = message
    self.key = key
    self.path = path
    self.cause = cause
  }
}

extension BlobCacheError: CustomStringConvertible {
  /// A description such as `undecodableValue "a/b": …`.
  public var description: String {
    let subject = key.map { "\(code) \"\($0.string)\"" } ?? code.description
    return ([subject, message] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
  }
}

/// Makes `localizedDescription` return the description instead of a number.
extension BlobCacheError: LocalizedError {
  public var errorDescription: String? { description }
  public var failureReason: String? { message }
}
