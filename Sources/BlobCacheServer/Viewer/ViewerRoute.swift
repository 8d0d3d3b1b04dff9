internal import BlobRecord
internal import TextFormats

/// What lies below `/ui/`. The names are those of the paths.
enum ViewerRoute: String, CaseIterable {
  case overview = ""
  /// The table of records.
  case records
  /// One record in detail.
  case record
  /// A payload, for the page of its record.
  case payload
  /// What collections have done, and the forms that begin one.
  case collections
  /// Changes one record.
  case change
  /// Makes a collection, or tells what one would do.
  case collect
  /// Verifies all records.
  case verify
  /// Exchanges the token of a server for one browser.
  case enter
  case style = "viewer.css"
  case script = "viewer.js"
  case icon = "icon.svg"

  static let root = "/ui/"

  /// - Returns: nil for another path.
  init?(path: Substring) {
    guard path.hasPrefix(Self.root) else { return nil }
    self.init(rawValue: String(path.dropFirst(Self.root.count)))
  }

  /// Whether it is the action of a form.
  var isAction: Bool { [.change, .collect, .verify].contains(self) }

  /// What a caller must be allowed to do; nil for what anybody may. Pages are of the whole directory.
  var permission: Permission? {
    switch self {
    case .overview, .records, .record, .payload, .collections: Permission(scope: .read, reach: .directory)
    case .change: Permission(scope: .write, reach: .directory)
    case .collect, .verify: Permission(scope: .admin, reach: .directory)
    case .enter, .style, .script, .icon: nil
    }
  }

  /// Whether it is there for those, too, who have no way in yet.
  var isOpen: Bool { [.enter, .style, .script, .icon].contains(self) }

  var methods: [String] { isAction ? ["POST", "OPTIONS"] : ["GET", "HEAD", "OPTIONS"] }
}

/// A file that the pages use. The program has it built in.
struct ViewerAsset: Sendable {
  let route: ViewerRoute
  let mediaType: String
  let data: Data
  /// Its address names its content, so a browser may keep it for ever.
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
