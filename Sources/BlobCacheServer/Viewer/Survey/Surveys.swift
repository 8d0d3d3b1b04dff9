internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// A page never waits for a complete scan, but displays the known results and polls. Without polls, the scan ends.
final class Surveys: Sendable {
  struct Scope: Hashable, Sendable {
    var prefix = ""
    var states = Set(RecordState.allCases)
  }

  struct Progress: Sendable {
    let result: SurveyResult
    let isWhole: Bool
    let failure: String?
  }

  private struct Walk {
    let number: Int
    var result = SurveyResult()
    var began = ContinuousClock.now
    var lastAsked = ContinuousClock.now
    var ended: ContinuousClock.Instant?
    var failure: String?

    var progress: Progress { Progress(result: result, isWhole: ended != nil && failure == nil, failure: failure) }

    /// The validity of a result increases with the duration of its scan.
    var isKept: Bool {
      guard let ended else { return true }
      let age = ContinuousClock.now - ended
      return failure == nil && age < min(max((ended - began) * 20, .seconds(1)), .seconds(600))
    }
  }

  private struct State {
    var walks: [Scope: Walk] = [:]
    var count = 0
  }

  private let state = Lock(State())

  /// The least recently requested scan beyond the limit is cancelled, because each occupies a thread.
  private static let mostWalks = 4
  /// A scan ends if no page polls it for this time.
  private static let patience: Duration = .seconds(15)
  /// A page waits for a scan for this time, which suffices for thousands of records.
  private static let wait: Duration = .milliseconds(150)
  private static let pageSize = 256

  /// Starts the scan if necessary, and returns its results after a short wait. With `anew`, it is repeated.
  func progress(of scope: Scope, in cache: BlobCache, anew: Bool = false) async throws -> Progress {
    begin(scope, cache, anew)
    let deadline = ContinuousClock.now + Self.wait
    while true {
      let walk = state.withLock { $0.walks[scope] }
      if let walk, walk.ended != nil || ContinuousClock.now >= deadline {
        return walk.progress
      }
      guard walk != nil else { return Progress(result: SurveyResult(), isWhole: false, failure: nil) }
      try await Task.sleep(for: .milliseconds(5))
    }
  }

  func known(_ scope: Scope) -> Progress? {
    state.withLock { state in
      state.walks[scope]?.lastAsked = .now
      return state.walks[scope]?.progress
    }
  }

  private func begin(_ scope: Scope, _ cache: BlobCache, _ anew: Bool) {
    let number: Int? = state.withLock { state in
      state.walks[scope]?.lastAsked = .now
      if let walk = state.walks[scope], walk.isKept, !(anew && walk.ended != nil) { return nil }
      if state.walks.count >= Self.mostWalks, state.walks[scope] == nil,
        let oldest = state.walks.min(by: { $0.value.lastAsked < $1.value.lastAsked })?.key
      {
        state.walks[oldest] = nil
      }
      state.count += 1
      state.walks[scope] = Walk(number: state.count)
      return state.count
    }
    guard let number else { return }
    Task { [weak self] in
      var position: WalkPosition? = .start
      do {
        while let start = position {
          let page = try await cache.page(
            prefix: scope.prefix, from: start, limit: Self.pageSize, where: { scope.states.contains($0.state) })
          let uses = try cache.useCounts(of: page.entries)
          guard let self, self.add(page.entries, uses, to: scope, number, cache.configuration.store.now()) else {
            return
          }
          position = page.next
        }
        self?.end(scope, number, nil)
      } catch {
        self?.end(scope, number, Refusal(error).message)
      }
    }
  }

  private func add(
    _ entries: [RecordEntry], _ uses: [Int]?, to scope: Scope, _ number: Int, _ now: UnixTime
  ) -> Bool {
    let rows = entries.enumerated().map { RecordRow($1, useCount: uses?[$0]) }
    return state.withLock { state in
      // The result is modified in place, because a copy would duplicate its arrays.
      guard state.walks[scope]?.number == number, let lastAsked = state.walks[scope]?.lastAsked else { return false }
      guard ContinuousClock.now - lastAsked < Self.patience else {
        state.walks[scope] = nil
        return false
      }
      for row in rows { state.walks[scope]?.result.add(row, now: now) }
      return true
    }
  }

  private func end(_ scope: Scope, _ number: Int, _ failure: String?) {
    state.withLock { state in
      guard state.walks[scope]?.number == number else { return }
      state.walks[scope]?.ended = .now
      state.walks[scope]?.failure = failure
    }
  }
}

final class Samples: Sendable {
  struct Sample: Sendable {
    let time: UnixTime
    let traffic: BlobStore.Traffic
    let usage: BlobStore.UsageEstimate?
  }

  /// The maximum number of samples: six minutes, at one sample every two seconds.
  private static let limit = 180
  /// After a longer gap in seconds the curve restarts, because the values in between are unknown.
  private static let longestGap: Int64 = 30

  private let samples = Lock<[Sample]>([])

  func add(_ sample: Sample) -> [Sample] {
    samples.withLock { samples in
      if let last = samples.last {
        let gap = sample.time.seconds - last.time.seconds
        // The curve also restarts after a counter reset or a clock that was set back.
        if gap < 0 || gap > Self.longestGap || sample.traffic.hits < last.traffic.hits { samples = [] }
        if gap == 0, !samples.isEmpty { samples.removeLast() }
      }
      samples.append(sample)
      if samples.count > Self.limit { samples.removeFirst(samples.count - Self.limit) }
      return samples
    }
  }
}
