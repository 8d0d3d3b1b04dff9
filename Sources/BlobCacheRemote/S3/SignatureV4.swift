internal import BlobRecord

#if Remote
  internal import Crypto
  internal import Locks
  internal import TextFormats

  /// Signs requests with AWS Signature Version 4.
  ///
  /// Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
  final class SignatureV4: Sendable {
    static let unsignedPayload = "UNSIGNED-PAYLOAD"

    struct Request: Sendable {
      var method: String
      var path: String
      /// The canonical query, as the method `query` returns it.
      var query = ""
      /// The signed fields including `host`, with lowercase names.
      var fields: [(name: String, value: String)]
      /// The SHA-256 of the body in hexadecimal digits, or its placeholder.
      var payload: String
    }

    private struct Scope: Equatable {
      let day: String
      let secretKey: String
    }

    private let region: String
    private let service: String
    /// The derived key of the current day, cached because its derivation takes four times as long as its use.
    private let key = Lock<(scope: Scope, key: SymmetricKey)?>(nil)

    init(region: String, service: String = "s3") {
      self.region = region
      self.service = service
    }

    func authorization(_ request: Request, by credentials: S3Credentials, at time: UTCTime) -> String {
      let place = "\(time.day)/\(region)/\(service)/aws4_request"
      let signature = Hexadecimal.text(
        Self.code(of: stringToSign(request, at: time), by: key(of: credentials, on: time.day)))
      return "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(place), "
        + "SignedHeaders=\(Self.names(request.fields)), Signature=\(signature)"
    }

    func stringToSign(_ request: Request, at time: UTCTime) -> String {
      "AWS4-HMAC-SHA256\n\(time.text)\n\(time.day)/\(region)/\(service)/aws4_request\n"
        + Self.digest(of: Data(Self.canonical(request).utf8))
    }

    static func canonical(_ request: Request) -> String {
      let fields = sorted(request.fields).map { "\($0.name):\(compact($0.value))\n" }.joined()
      return [request.method, request.path, request.query, fields, names(request.fields), request.payload]
        .joined(separator: "\n")
    }

    static func query(_ parameters: [(name: String, value: String)]) -> String {
      parameters.map { (PercentEncoding.encoded($0.name), PercentEncoding.encoded($0.value)) }
        .sorted { $0 < $1 }.map { "\($0)=\($1)" }.joined(separator: "&")
    }

    static func digest(of bytes: Data) -> String { Hexadecimal.text(SHA256.hash(data: bytes)) }

    private func key(of credentials: S3Credentials, on day: String) -> SymmetricKey {
      let scope = Scope(day: day, secretKey: credentials.secretKey)
      if let known = key.withLock({ $0 }), known.scope == scope { return known.key }
      var derived = SymmetricKey(data: Data("AWS4\(credentials.secretKey)".utf8))
      for part in [day, region, service, "aws4_request"] {
        derived = SymmetricKey(data: Self.code(of: part, by: derived))
      }
      key.withLock { [derived] in $0 = (scope, derived) }
      return derived
    }

    private static func code(of text: String, by key: SymmetricKey) -> HMAC<SHA256>.MAC {
      HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: key)
    }

    private static func sorted(_ fields: [(name: String, value: String)]) -> [(name: String, value: String)] {
      fields.sorted { $0.name < $1.name }
    }

    private static func names(_ fields: [(name: String, value: String)]) -> String {
      sorted(fields).map(\.name).joined(separator: ";")
    }

    private static func compact(_ value: String) -> String {
      value.split(separator: " ").joined(separator: " ")
    }
  }
#endif

struct UTCTime: Equatable {
  /// A date such as `20130524`.
  let day: String
  /// A time such as `20130524T000000Z`.
  let text: String

  /// Times are clamped to the years 1970 to 9999.
  init(_ time: UnixTime) {
    let seconds = min(max(time.seconds, 0), 253_402_300_799)
    let (date, second) = (CivilDate(dayNumber: seconds / 86_400), seconds % 86_400)
    func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    day = digits(date.year, 4) + digits(date.month, 2) + digits(date.day, 2)
    text = "\(day)T\(digits(second / 3600, 2))\(digits(second / 60 % 60, 2))\(digits(second % 60, 2))Z"
  }
}
