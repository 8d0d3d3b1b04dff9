internal import BlobCache

struct S3Failure {
  let status: Int
  /// The code, such as `NoSuchBucket`, or an empty string if the body contains none.
  let code: String
  private let document: XMLElement?

  init(status: Int, body: some Sequence<UInt8>) {
    self.status = status
    let root = XMLElement(body)
    document = root?.name == "Error" ? root : nil
    code = document?["Code"] ?? ""
  }

  struct Settings {
    let bucket: String
    let region: String
    let accessKey: String
    let time: String
  }

  func meaning(
    _ settings: Settings, _ method: String, serverTime: String?, bucketRegion: String?, retryAfter: Duration?
  ) -> (kind: RemoteError.Kind, advice: String) {
    let key = "access key \(settings.accessKey)"
    switch code {
    case "NoSuchBucket", "InvalidBucketName":
      return (.refused, "there is no bucket \(settings.bucket); look at the bucket's name and at the endpoint")
    case "InvalidAccessKeyId", "UnrecognizedClientException":
      return (.refused, "the server does not know the \(key); look at the credentials")
    case "SignatureDoesNotMatch":
      return (.refused, "the secret of the \(key) is another there; look at the secret key of the credentials")
    case "RequestTimeTooSkewed", "RequestExpired":
      return (
        .refused, "the clocks differ: it is \(settings.time) here, \(serverTime ?? "another time") there; set the clock"
      )
    case "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect":
      return (.refused, regionAdvice(settings, bucketRegion))
    case "AllAccessDisabled", "AccountProblem":
      return (.refused, "the account of the \(key) or the bucket \(settings.bucket) is disabled; ask its owner")
    case "AccessDenied", "Forbidden":
      let absence = method == "GET" ? "; without s3:ListBucket an absent object is answered so" : ""
      return (
        Self.forbidden(method),
        "the \(key) has no right to do this; look at its policy for the bucket \(settings.bucket)\(absence)"
      )
    case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
      return (.refused, "the session token is not taken, or has ended; look at the session token of the credentials")
    case "SlowDown", "ServiceUnavailable", "TooManyRequests", "RequestLimitExceeded", "Throttling":
      return (.throttled(retryAfter), "the server asks for a pause")
    case "RequestTimeout": return (.timedOut, "the upload was too slow for the server")
    case "EntityTooLarge": return (.unsupported, "the object is too large; lower the largest payload that goes there")
    case "KeyTooLongError":
      return (.unsupported, "the name is too long for the server; shorten the namespace or the key")
    case "NotImplemented", "MethodNotAllowed":
      let checksum =
        method == "PUT" ? "; some servers know no x-amz-checksum-crc32, which checksums=false leaves out" : ""
      return (.unsupported, "the server lacks this capability\(checksum)")
    case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch":
      return (.failed, "the bytes changed on their way")
    default: break
    }
    switch status {
    case 301, 302, 307, 308: return (.refused, regionAdvice(settings, bucketRegion))
    case 400 where bucketRegion.map { $0 != settings.region } == true:
      return (.refused, regionAdvice(settings, bucketRegion))
    case 403: return (Self.forbidden(method), "look at the credentials and their policy")
    default:
      let (kind, advice) = HTTPFailure.meaning(of: status, retryAfter: retryAfter, credential: .none, method: "GET")
      return (kind, status == 401 ? "look at the credentials and their policy" : advice)
    }
  }

  /// The refusal may concern one object, unless the request was for a list.
  private static func forbidden(_ method: String) -> RemoteError.Kind { method == "list" ? .refused : .forbidden }

  /// A Boolean value that indicates whether newer credentials may be accepted.
  var concernsCredentials: Bool {
    let codes = [
      "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "UnrecognizedClientException",
      "SignatureDoesNotMatch",
    ]
    return codes.contains(code) || code.isEmpty && status == 401
  }

  /// A Boolean value that indicates whether a request with another time may be accepted.
  var concernsClock: Bool { code == "RequestTimeTooSkewed" }

  private func regionAdvice(_ settings: Settings, _ bucketRegion: String?) -> String {
    let there = document?["Region"] ?? bucketRegion
    let endpoint = document?["Endpoint"].map { ", and endpoint to \($0)" } ?? ""
    return "the bucket \(settings.bucket) is not in region \(settings.region); set region"
      + (there.map { " to \($0)" } ?? "") + endpoint
  }
}
