internal import BlobRecord
internal import TextFormats

/// The pages and resources below `/ui/`. The raw values are their path components.
enum ViewerRoute: String, CaseIterable {
  case overview = ""
  case records
  case record
  case payload
  case collections
  case change
  case collect
  case verify
  /// The exchange of the token for a cookie, on a server for a single browser.
  case enter
  case style = "viewer.css"
  case script = "viewer.js"
  case icon = "icon.svg"

  static let root = "/ui/"

  init?(path: Substring) {
    guard path.hasPrefix(Self.root) else { return nil }
    self.init(rawValue: String(path.dropFirst(Self.root.count)))
  }

  var isAction: Bool { [.change, .collect, .verify].contains(self) }

  var permission: Permission? {
    switch self {
    case .overview, .records, .record, .payload, .collections: Permission(scope: .read, reach: .directory)
    case .change: Permission(scope: .write, reach: .directory)
    case .collect, .verify: Permission(scope: .admin, reach: .directory)
    case .enter, .style, .script, .icon: nil
    }
  }

  /// A Boolean value that indicates whether the route is available without the cookie.
  var isOpen: Bool { [.enter, .style, .script, .icon].contains(self) }

  var methods: [String] { isAction ? ["POST", "OPTIONS"] : ["GET", "HEAD", "OPTIONS"] }
}

struct ViewerAsset: Sendable {
  let route: ViewerRoute
  let mediaType: String
  let data: Data
  /// The address contains a checksum of the content, so that browsers can cache the resource forever.
  let address: String

  static let style = ViewerAsset(.style, "text/css; charset=utf-8", PackageResources.viewer_css)
  static let script = ViewerAsset(.script, "text/javascript; charset=utf-8", PackageResources.viewer_js)
  static let icon = ViewerAsset(.icon, "image/svg+xml", PackageResources.icon_svg)

  private init(_ route: ViewerRoute, _ mediaType: String, _ bytes: [UInt8]) {
    self.route = route
    self.mediaType = mediaType
    data = Data(bytes)
    let checksum = unsafe CRC32.checksum(of: bytes.span.bytes)
    address = ViewerLink(route).with("v", Hexadecimal.text(checksum, digits: 8)).text
  }

  var response: ServerResponse {
    ServerResponse(
      status: 200,
      fields: [
        "Content-Type": mediaType, "Cache-Control": "max-age=31536000, immutable", "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; sandbox",
      ], body: .bytes(data))
  }
}
