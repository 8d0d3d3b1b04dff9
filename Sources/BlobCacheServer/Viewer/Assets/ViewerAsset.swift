internal import BlobRecord
internal import TextFormats

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
