internal import BlobCache
internal import TextFormats

/// What the directory has to do with the tier that other machines share.
struct RemoteCard {
  let status: RemoteStatus

  var content: HTML {
    """
    <section class="card wide" id="remote" data-live><h2>Beyond this machine</h2>
    <p>\(HTML.visible(status.engine)): loads \(Self.state(status.condition)) changes \(Self.state(status.changeCondition))</p>
    <table><tbody>\(rows)</tbody></table>
    </section>
    """
  }

  private static func state(_ condition: RemoteStatus.Condition) -> HTML {
    let (words, colour) =
      switch condition {
      case .inUse: ("in use", "live")
      case .leftAlone: ("left alone", "damaged")
      case .tried: ("tried again", "expired")
      }
    return "<span class=\"state \(colour)\">\(words)</span>"
  }

  private var rows: [HTML] {
    [
      row("Hits", status.hits, "\(HTML.bytes(status.loadedBytes)) loaded"),
      row("Misses", status.misses, "and \(Quantities.count(status.passedOver)) loads that did not ask"),
      row("Uploads", status.uploads, "\(HTML.bytes(status.uploadedBytes)) stored there"),
      row("Removals", status.removals, ""),
      row("Waiting", Int64(status.waitingChanges), HTML.bytes(Int64(status.waitingBytes))),
      row(
        "Given up", status.droppedUploads + status.droppedRemovals,
        "\(Quantities.count(status.droppedUploads)) stores, \(Quantities.count(status.droppedRemovals)) removals"),
      row("Failures", status.failures, "\(Quantities.count(status.damaged)) objects that were no record"),
    ]
  }

  private func row(_ name: String, _ count: Int64, _ note: HTML) -> HTML {
    "<tr><td>\(name)</td><td class=\"number\">\(Quantities.count(count))</td><td>\(note)</td></tr>"
  }
}
