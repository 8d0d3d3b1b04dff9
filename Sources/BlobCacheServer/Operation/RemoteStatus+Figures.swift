internal import BlobCache

/// What the remote tier has done, for metrics, `/status` and the viewer.
extension RemoteStatus {
  struct Figure {
    /// As a member of JSON has it, such as `droppedUploads`.
    let name: String
    let help: String
    let value: Int64

    /// As a metric has it, such as `dropped_uploads`.
    var metricName: String {
      name.reduce(into: "") { text, letter in text += letter.isUppercase ? "_" + letter.lowercased() : String(letter) }
    }
  }

  var counters: [Figure] {
    [
      Figure(
        name: "requests", help: "Requests to the remote tier that have ended, well or not, of every kind.",
        value: requests),
      Figure(name: "hits", help: "Loads that the remote tier answered with a blob.", value: hits),
      Figure(name: "misses", help: "Loads that it answered with nothing, or with an expired record.", value: misses),
      Figure(name: "passedOver", help: "Loads that did not ask, because it is left alone.", value: passedOver),
      Figure(name: "failures", help: "Requests that failed, of every kind.", value: failures),
      Figure(name: "damaged", help: "Objects that were no record of their key.", value: damaged),
      Figure(name: "uploads", help: "Stores that have reached it.", value: uploads),
      Figure(name: "removals", help: "Removals that have reached it.", value: removals),
      Figure(name: "droppedUploads", help: "Stores that were given up.", value: droppedUploads),
      Figure(name: "droppedRemovals", help: "Removals that were given up.", value: droppedRemovals),
      Figure(name: "uploadedBytes", help: "Bytes of the payloads that were stored there.", value: uploadedBytes),
      Figure(name: "loadedBytes", help: "Bytes of the payloads that came from there.", value: loadedBytes),
    ]
  }

  var gauges: [Figure] {
    [
      Figure(name: "waitingChanges", help: "Stores and removals on their way there.", value: Int64(waitingChanges)),
      Figure(name: "waitingBytes", help: "Bytes of the stores among them.", value: Int64(waitingBytes)),
    ]
  }
}
