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
