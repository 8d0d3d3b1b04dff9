struct PageFrame {
  var title: String
  var section: Section?
  var directory: String
  var isReadOnly = false

  enum Section: String, CaseIterable {
    case overview = "Overview"
    case records = "Records"
    case locked = "Locked"
    case collections = "Collections"

    fileprivate var link: ViewerLink {
      switch self {
      case .overview: ViewerLink(.overview)
      case .records: ViewerLink(.records)
      case .locked: ViewerLink(.records).with("state", "locked")
      case .collections: ViewerLink(.collections)
      }
    }
  }

  func page(_ content: HTML) -> HTML {
    let tag: HTML = isReadOnly ? " <em class=\"tag\">read only</em>" : ""
    return """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <title>\(title) · BlobCache</title>
      <link rel="icon" href="\(ViewerAsset.icon.address)" type="image/svg+xml">
      <link rel="stylesheet" href="\(ViewerAsset.style.address)">
      <script src="\(ViewerAsset.script.address)"></script>
      </head>
      <body>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
      <a class="brand" href="./">\(Self.mark)<b>BlobCache</b></a>
      <nav aria-label="Pages">\(Section.allCases.map(entry))</nav>
      <span class="place" title="\(directory)"><bdi>\(directory)</bdi>\(tag)</span>
      <button type="button" id="theme" class="quiet" title="Dark or light" aria-label="Dark or light" hidden>◐</button>
      </header>
      <main id="main" tabindex="-1">
      \(content)
      </main>
      <footer class="keys">Keys: <kbd>/</kbd> filter, <kbd>j</kbd> <kbd>k</kbd> next and previous record, <kbd>g</kbd> and \
      <kbd>o</kbd> <kbd>r</kbd> <kbd>l</kbd> <kbd>c</kbd> a page</footer>
      </body>
      </html>

      """
  }

  private func entry(_ entry: Section) -> HTML {
    let current: HTML = entry == section ? " aria-current=\"page\"" : ""
    return "<a href=\"\(entry.link)\"\(current)>\(entry.rawValue)</a>"
  }

  private static var mark: HTML {
    """
    <svg class="mark" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><rect x="2" y="3" width="20" height="5" rx="1.5"/>\
    <rect x="2" y="9.5" width="20" height="5" rx="1.5" opacity=".7"/><rect x="2" y="16" width="12" height="5" rx="1.5" opacity=".45"/></svg>
    """
  }
}
