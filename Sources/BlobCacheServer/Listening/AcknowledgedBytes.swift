#if Server
  internal import NIOCore

  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  enum AcknowledgedBytes {
    #if os(Linux) || os(Android)
      /// The beginning of `tcp_info` in linux/tcp.h, which ends with `tcpi_bytes_acked`.
      private struct Information: BitwiseCopyable {
        typealias Eight = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)
        typealias Seven = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)
        var first: Eight
        var second: Seven
        var acknowledged: UInt64
      }
    #endif

    /// Returns the number of bytes that the client's system has received, or `nil` if it is unknown, as for Unix sockets.
    ///
    /// The sender's system buffers megabytes, so the bytes that it has accepted say little about the client.
    ///
    /// - Precondition: The caller is on the channel's event loop.
    static func count(of channel: any Channel) -> Int? {
      #if os(Linux) || os(Android)
        guard let socket = channel as? any SocketOptionProvider, channel.remoteAddress?.peer != nil else { return nil }
        let information: EventLoopFuture<Information> = socket.unsafeGetSocketOption(
          level: .tcp, name: .init(rawValue: CInt(TCP_INFO)))
        var count: Int?
        // On the event loop, the result is available immediately.
        information.assumeIsolated().whenSuccess { count = Int(clamping: $0.acknowledged) }
        return count
      #else
        return nil
      #endif
    }
  }
#endif
