// Volumes of image files, for tests that take their power or their room away. Linux, as root.
//
// Each function answers 0, or an errno.

#ifndef VOLUMES_H
#define VOLUMES_H

#include <stdbool.h>

// Mounts an image on a loop device, which goes when the volume is unmounted. Answers the device's number, too.
int volume_mount_image(
    const char *image, const char *directory, const char *type, const char *options, int *device);

// Waits, for a minute at most, until the loop device of an unmounted image has let go of it. A process in another mount
// namespace may have got a copy of the mount, which stays until it ends. Until then the file system is still in use: XFS
// refuses a second mount as one of the same UUID, and others would have two mounts of the same blocks.
int volume_wait_for_image(int device, const char *image);

// Mounts a file system that needs no device.
int volume_mount(const char *directory, const char *type, const char *options);

int volume_set_read_only(const char *directory, bool is_read_only);

int volume_unmount(const char *directory);

// Unmounts a volume once it is no longer in use. For clearing up after tests that went wrong.
int volume_abandon(const char *directory);

// Cuts the power: bytes that are not on the medium now never get there, and every call fails until the volume is
// unmounted. Refuses the volume that the root directory lies on.
int volume_cut_power(const char *directory);

#endif
