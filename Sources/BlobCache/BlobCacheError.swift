public import BlobRecord
public import SystemPackage

/// Why the cache itself could not do what was asked. A failure of the store is a `BlobStoreError`. An error of a
/// producer is thrown as it is, and a cancelled task gets `CancellationError`.
public struct BlobCacheError: Error, Sendable {
  public let code: Code
  /// What happened, in a sentence.
  public let message: String
  public let key: BlobKey?
  /// The directory concerned.
  public let path: FilePath?
  /// The cause, such as the error of a decoder.
  public let cause: (any Error)?

  /// The kind of failure. More may be added; switch with a default.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: String {
      case closed, invalidConfiguration, noCacheDirectory, undecodableValue, unencodableValue, writeFailed
      case recursiveProduction, noThread, writerEnded, invalidRange, sizeMismatch, overtaken
    }

    private let kind: Kind
    private init(_ kind: Kind) { self.kind = kind }

    /// The cache was closed.
    public static let closed = Code(.closed)
    /// A setting is impossible, or differs from another cache's on the same directory.
    ///
    /// The other cache is in this process.
    public static let invalidConfiguration = Code(.invalidConfiguration)
    /// The platform has no directory for caches, or the name cannot be a directory's.
    public static let noCacheDirectory = Code(.noCacheDirectory)
    /// The blob is sound and does not decode to a value.
    ///
    /// `cause` is the decoder's error.
    public static let undecodableValue = Code(.undecodableValue)
    /// The value does not encode; `cause` is the encoder's error.
    public static let unencodableValue = Code(.unencodableValue)
    /// A blob that was staged could not be written; `cause` says why.
    public static let writeFailed = Code(.writeFailed)
    /// A producer asked for the very key that it is producing.
    public static let recursiveProduction = Code(.recursiveProduction)
    /// The system has no thread to give.
    public static let noThread = Code(.noThread)
    /// The writer was committed or discarded, or is in the middle of another call.
    public static let writerEnded = Code(.writerEnded)
    /// A range of bytes that does not lie within the object.
    public static let invalidRange = Code(.invalidRange)
    /// A closure has fetched more or fewer bytes than it was asked for.
    public static let sizeMismatch = Code(.sizeMismatch)
    /// The key was stored or removed while a stream of it began.
    public static let overtaken = Code(.overtaken)

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
  /// Such as `undecodableValue "a/b": …`.
  public var description: String {
    let subject = key.map { "\(code) \"\($0.string)\"" } ?? code.description
    return ([subject, message] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
  }
}

/// So that `localizedDescription` tells what happened, instead of a number.
extension BlobCacheError: LocalizedError {
  public var errorDescription: String? { description }
  public var failureReason: String? { message }
}
