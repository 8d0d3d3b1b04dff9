internal import BlobCache
internal import BlobStore
internal import SystemPackage

struct Refusal: Error {
  let status: Int
  let message: String
  var fields: HeaderFields = [:]

  init(_ status: Int, _ message: String, fields: HeaderFields = [:]) {
    self.status = status
    self.message = message
    self.fields = fields
  }

  var response: ServerResponse {
    var response = ServerResponse.line(status, message)
    for field in fields.all { response.fields.append(field.name, field.value) }
    return response
  }
}

extension Refusal {
  private static let comeBackSoon: HeaderFields = ["Retry-After": "1"]

  /// Maps an error of the cache to a status. The message contains no path of this machine.
  init(_ error: any Error) {
    switch error {
    case let refusal as Refusal: self = refusal
    case let error as BlobStoreError where BlobResponder.isStillWritten(error):
      self.init(409, "the blob is still being written", fields: Self.comeBackSoon)
    case let error as BlobStoreError: self.init(error)
    case let error as BlobCacheError: self.init(error)
    case is WrongContent: self.init(500, "the payload has another SHA-256 than its key")
    case is BodyBrokenOff: self.init(400, "the body has ended before it was whole")
    case is CancellationError: self.init(503, "the server is stopping", fields: Self.comeBackSoon)
    default: self.init(500, "a fault of the server")
    }
  }

  private init(_ error: BlobStoreError) {
    switch error.code {
    case .invalidKey, .extendedDataTooLarge, .sizeMismatch, .invalidTimeToLive: self.init(400, error.message)
    case .payloadTooLarge: self.init(413, error.message)
    case .foreignFile, .lockCountOverflow, .superseded: self.init(409, error.message)
    case .limitReached: self.init(507, error.message)
    case .busy, .collectionRunning: self.init(503, error.message, fields: Self.comeBackSoon)
    case .directoryMissing, .worldWritableDirectory, .settingsUnreadable, .layoutMismatch, .notACache:
      self.init(503, error.message)
    case .fileSystem: self.init(error.errno, error.message)
    default: self.init(500, error.message)
    }
  }

  private init(_ errno: Errno?, _ message: String) {
    switch errno {
    case .noSpace, .diskQuotaExceeded: self.init(507, message)
    case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory:
      self.init(503, message, fields: Self.comeBackSoon)
    case .readOnlyFileSystem, .permissionDenied, .notPermitted, .noSuchFileOrDirectory: self.init(503, message)
    default: self.init(500, message)
    }
  }

  private init(_ error: BlobCacheError) {
    switch error.code {
    case .closed: self.init(503, "the server is stopping", fields: Self.comeBackSoon)
    case .noThread: self.init(503, error.message, fields: Self.comeBackSoon)
    default: self.init(500, error.message)
    }
  }
}
