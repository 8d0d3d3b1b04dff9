public import Dispatch

/// The only reference to what a queue must release.
///
/// A closure that captured it might be the last to be destroyed on the thread that made it.
@usableFromInline
final class ReleaseParcel<Content: ~Copyable & Sendable>: Sendable {
  private let content: Content

  private init(_ content: consuming Content) { self.content = content }

  @usableFromInline
  static func send(_ content: consuming Content, to queue: DispatchQueue) {
    let parcel = unsafe Unmanaged.passRetained(ReleaseParcel(content))
    queue.async { unsafe parcel.release() }
  }
}
