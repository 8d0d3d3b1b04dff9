// Volumes on image files, for tests that cut the power or fill the volume. Linux only, as root.
//
// Each function returns 0 or an errno value.

#ifndef VOLUMES_H
#define VOLUMES_H

#include <stdbool.h>

// Mounts an image on a loop device, which is detached when the volume is unmounted. Also returns the device's number.
int volume_mount_image(
    const char *image, const char *directory, const char *type, const char *options, int *device);

// Waits, for at most a minute, until the loop device of an unmounted image is detached. A process in another mount
// namespace may have a copy of the mount, which remains until the process ends. Until then, the file system is in use:
// XFS would refuse a second mount with the same UUID, and other file systems would mount the same blocks twice.
int volume_wait_for_image(int device, const char *image);

// Mounts a file system that needs no device.
int volume_mount(const char *directory, const char *type, const char *options);

int volume_set_read_only(const char *directory, bool is_read_only);

int volume_unmount(const char *directory);

// Unmounts a volume as soon as it is no longer in use, to clean up after failed tests.
int volume_abandon(const char *directory);

// Simulates a power cut: bytes that are not on the medium yet are lost, and every call fails until the volume is
// unmounted. Refuses the volume that contains the root directory.
int volume_cut_power(const char *directory);

#endif
