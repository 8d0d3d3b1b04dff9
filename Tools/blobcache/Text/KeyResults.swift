internal import BlobRecord
internal import BlobStore
internal import TextFormats

/// Prints the results for several keys.
struct KeyResults {
  let operation: String
  /// The word for success in the text output, such as `locked`.
  let done: String
  let store: BlobStore
  let options: DirectoryOptions

  func print(_ results: [BlobStore.KeyResult], to output: inout Output) -> Answer {
    var answer = Answer.done
    var failure: BlobStoreError?
    for result in results {
      let line = Line(result)
      answer.worsen(to: line.answer)
      if let error = line.failure {
        StandardError.report(error.text(for: operation))
        failure = error
      }
      if case .success(.notFound) = result.result { store.reportForeignRecord(for: result.key) }
      if options.json {
        var object = JSONObject(operation: operation, key: result.key.string, result: line.result)
        if let damage = line.damage { object.add(damage) }
        if let error = line.failure { object.add("message", error.text(for: operation)) }
        output.line(object)
      } else if line.answer != .done || !options.quiet {
        let colour: Style.Colour = line.answer == .done ? .green : line.answer == .no ? .yellow : .red
        output.line("\(result.key.string.printable): \(output.style(text(of: line), colour))")
      }
    }
    if let failure { ChangeOfOwner.report(store.directory, after: failure) }
    let foundNothing = results.allSatisfy { if case .success(.notFound) = $0.result { true } else { false } }
    if foundNothing { answer.worsen(to: WrongDirectory.answer(store.directory, options)) }
    return answer
  }

  private func text(of line: Line) -> String {
    switch line.result {
    case "done": done
    case "notFound": "not found"
    case "notLocked": "not locked"
    default: line.damage.map { "damaged: \($0.name)" } ?? line.result
    }
  }

  private struct Line {
    /// The value in JSON.
    let result: String
    let answer: Answer
    var damage: RecordError?
    var failure: BlobStoreError?

    init(_ result: BlobStore.KeyResult) {
      switch result.result {
      case .success(let outcome):
        self.result = outcome.rawValue
        answer = outcome == .done ? .done : .no
      case .failure(let error):
        damage = error.recordError
        self.result = damage == nil ? "failed" : "damaged"
        answer = damage == nil ? .failed : .no
        if damage == nil { failure = error }
      }
    }
  }
}

extension JSONObject {
  init(operation: String, key: String, result: String) {
    self.init(type: "result")
    add("operation", operation)
    add("key", key)
    add("result", result)
  }
}
