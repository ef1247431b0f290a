//! How many references a task takes.

use crate::error::{Invalid, InvalidCode};
use crate::prepare::ReferenceKind;
use crate::task::Task;

/// The number of references of each kind in a request; a video's own soundtrack is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// The number of pictures.
    pub images: u32,
    /// The number of videos.
    pub videos: u32,
    /// The number of standalone sounds.
    pub audios: u32,
}

impl ReferenceCounts {
    /// The most keyframes of [`Task::Fl2va`].
    pub const MAX_KEYFRAMES: u32 = 2;
    /// The most pictures of [`Task::Ref2va`].
    pub const MAX_IMAGES: u32 = 9;
    /// The most videos of [`Task::Ref2va`].
    pub const MAX_VIDEOS: u32 = 3;
    /// The most standalone sounds of [`Task::Ref2va`].
    pub const MAX_AUDIOS: u32 = 3;
    /// The most references of [`Task::Ref2va`] in all.
    pub const MAX_TOTAL: u32 = 12;

    /// Counts media by their kinds.
    pub fn of(kinds: impl IntoIterator<Item = ReferenceKind>) -> Self {
        let mut counts = Self::default();
        for kind in kinds {
            let count = match kind {
                ReferenceKind::Image => &mut counts.images,
                ReferenceKind::Video => &mut counts.videos,
                ReferenceKind::Audio => &mut counts.audios,
            };
            *count = count.saturating_add(1);
        }
        counts
    }

    /// Returns the number of references of all kinds.
    pub fn total(self) -> u32 {
        self.images.saturating_add(self.videos).saturating_add(self.audios)
    }

    /// Returns the task that a request means which names none.
    pub fn implied_task(self) -> Task {
        if self.videos > 0 || self.audios > 0 {
            Task::Ref2va
        } else if self.images > 0 {
            Task::Fl2va
        } else {
            Task::T2va
        }
    }

    /// Returns the kind of reference from which [`implied_task`](Self::implied_task) follows; none where there are no
    /// references.
    pub(crate) fn implied_by(self) -> Option<ReferenceKind> {
        let by_weight = [
            (self.videos, ReferenceKind::Video),
            (self.audios, ReferenceKind::Audio),
            (self.images, ReferenceKind::Image),
        ];
        by_weight.into_iter().find_map(|(count, kind)| (count > 0).then_some(kind))
    }

    /// Checks that the references go with the task.
    ///
    /// Errors: `invalid_reference_combination` for any reference with T2VA, and for FL2VA without one or two pictures
    /// or with anything else; for Ref2VA `reference_required` without a picture or video, and `too_many_references`.
    pub fn check(self, task: Task) -> Result<(), Invalid> {
        match task {
            Task::T2va => self.check_none(),
            Task::Fl2va => self.check_keyframes(),
            Task::Ref2va => self.check_references(),
        }
    }

    /// Lists each kind with how many there are, and how many [`Task::Ref2va`] takes.
    fn kinds(self) -> [(ReferenceKind, u32, u32); 3] {
        [
            (ReferenceKind::Image, self.images, Self::MAX_IMAGES),
            (ReferenceKind::Video, self.videos, Self::MAX_VIDEOS),
            (ReferenceKind::Audio, self.audios, Self::MAX_AUDIOS),
        ]
    }

    fn check_none(self) -> Result<(), Invalid> {
        for (kind, count, _) in self.kinds() {
            if count > 0 {
                return Err(Invalid::of_kind(
                    InvalidCode::InvalidReferenceCombination,
                    kind,
                    format!("t2va takes no references, got {count} {kind}s"),
                ));
            }
        }
        Ok(())
    }

    fn check_keyframes(self) -> Result<(), Invalid> {
        let most = Self::MAX_KEYFRAMES;
        let [_, others @ ..] = self.kinds();
        for (kind, count, _) in others {
            if count > 0 {
                return Err(Invalid::of_kind(
                    InvalidCode::InvalidReferenceCombination,
                    kind,
                    format!("fl2va takes images only, got {count} {kind}s"),
                ));
            }
        }
        if !(1..=most).contains(&self.images) {
            // Many pictures without a task are hardly meant as keyframes.
            let hint = if self.images > most { "; with the task ref2va they are references" } else { "" };
            return Err(Invalid::of_kind(
                InvalidCode::InvalidReferenceCombination,
                ReferenceKind::Image,
                format!("fl2va takes 1 to {most} images, got {}{hint}", self.images),
            ));
        }
        Ok(())
    }

    fn check_references(self) -> Result<(), Invalid> {
        if self.images == 0 && self.videos == 0 {
            let (code, rule) =
                (InvalidCode::ReferenceRequired, "ref2va requires at least one image or video reference");
            return Err(match self.audios {
                0 => Invalid::new(code, "input_references", format!("{rule}, got none")),
                1 => Invalid::of_kind(code, ReferenceKind::Audio, format!("{rule}, got a sound alone")),
                sounds => Invalid::of_kind(code, ReferenceKind::Audio, format!("{rule}, got {sounds} sounds alone")),
            });
        }
        for (kind, count, most) in self.kinds() {
            if count > most {
                return Err(Invalid::of_kind(
                    InvalidCode::TooManyReferences,
                    kind,
                    format!("ref2va takes at most {most} {kind}s, got {count}"),
                ));
            }
        }
        if self.total() > Self::MAX_TOTAL {
            return Err(Invalid::new(
                InvalidCode::TooManyReferences,
                "input_references",
                format!("ref2va takes at most {} references, got {}", Self::MAX_TOTAL, self.total()),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(images: u32, videos: u32, audios: u32) -> ReferenceCounts {
        ReferenceCounts { images, videos, audios }
    }

    fn refusal(counts: ReferenceCounts, task: Task) -> (&'static str, String) {
        let invalid = counts.check(task).unwrap_err();
        // Whoever knows the client's own field puts it in place of the kind's, and the message names neither.
        assert_eq!(invalid.kind.map_or("input_references", ReferenceKind::field), invalid.field);
        assert!(!invalid.message.contains(&invalid.field), "{invalid}");
        (invalid.code.as_str(), invalid.field)
    }

    #[test]
    fn the_task_follows_from_the_references() {
        assert_eq!(counts(0, 0, 0).implied_task(), Task::T2va);
        assert_eq!(counts(2, 0, 0).implied_task(), Task::Fl2va);
        assert_eq!(counts(2, 1, 0).implied_task(), Task::Ref2va);
        assert_eq!(counts(0, 0, 1).implied_task(), Task::Ref2va);
    }

    #[test]
    fn t2va_takes_none() {
        assert_eq!(counts(0, 0, 0).check(Task::T2va), Ok(()));
        for (given, field) in [
            (counts(1, 0, 0), "image_reference"),
            (counts(0, 1, 0), "video_reference"),
            (counts(0, 0, 1), "audio_reference"),
        ] {
            assert_eq!(refusal(given, Task::T2va), ("invalid_reference_combination", field.to_owned()));
        }
    }

    #[test]
    fn fl2va_takes_one_or_two_images_and_nothing_else() {
        assert_eq!(counts(1, 0, 0).check(Task::Fl2va), Ok(()));
        assert_eq!(counts(2, 0, 0).check(Task::Fl2va), Ok(()));
        for given in [counts(0, 0, 0), counts(3, 0, 0), counts(1, 1, 0), counts(1, 0, 1)] {
            assert_eq!(refusal(given, Task::Fl2va).0, "invalid_reference_combination");
        }
    }

    #[test]
    fn ref2va_needs_a_picture_or_a_video_and_has_a_limit_per_kind_and_in_all() {
        assert_eq!(counts(9, 3, 0).check(Task::Ref2va), Ok(()));
        assert_eq!(counts(0, 1, 3).check(Task::Ref2va), Ok(()));
        assert_eq!(refusal(counts(0, 0, 2), Task::Ref2va).0, "reference_required");
        assert_eq!(refusal(counts(0, 0, 0), Task::Ref2va).0, "reference_required");
        for (given, field) in [
            (counts(10, 0, 0), "image_reference"),
            (counts(0, 4, 0), "video_reference"),
            (counts(1, 0, 4), "audio_reference"),
            (counts(8, 3, 2), "input_references"),
        ] {
            assert_eq!(refusal(given, Task::Ref2va), ("too_many_references", field.to_owned()));
        }
    }
}
