//! From a request to a specification: every rule, once.

mod media;

use crate::canvas::{AspectRatio, Canvas, CanvasError};
use crate::error::{Invalid, InvalidCode};
use crate::frames::{FPS, FrameCount};
use crate::geometry::GeometryProfile;
use crate::medium::MediumFacts;
use crate::profile::ModelProfile;
use crate::quality::Quality;
use crate::references::ReferenceCounts;
use crate::request::VideoRequest;
use crate::sigmas::{Sigmas, SigmasError};
use crate::spec::GenerationSpec;
use crate::task::Task;

/// The longest prompt, in characters. Of its bytes, 28,000 at the most, a tokenizer makes hardly more tokens, and the released
/// language model has positions for 262,144.
const MAX_PROMPT_CHARS: usize = 7000;

impl VideoRequest {
    /// Turns the request into the specification of a run, or names the first rule that it breaks.
    ///
    /// `random_seed` is used when the request has no seed; the specification shows which one was taken. A negative
    /// seed is stored by its two's complement, as PyTorch takes it; only the low 32 bits reach the generator.
    ///
    /// Errors: an [`Invalid`] that names the field, the rule and the value.
    pub fn resolve(&self, profile: &ModelProfile, random_seed: u64) -> Result<GenerationSpec, Invalid> {
        let prompt = self.resolve_prompt()?;
        let counts = ReferenceCounts::of(self.media.iter().map(|medium| medium.facts.kind()));
        let task = self.resolve_task(counts, profile)?;
        self.check_counts(task, counts)?;
        let keyframes = self.resolve_keyframes(task, counts)?;
        self.check_fps()?;
        self.check_media(&profile.geometry)?;
        let canvas = self.resolve_canvas(task, self.first_picture(), &profile.geometry)?;
        let num_frames = self.resolve_frames(task, profile)?;
        let (video_sigmas, audio_sigmas) = self.resolve_sigmas(profile)?;
        let quality = self.resolve_quality()?;
        let recipe = self.recipe.unwrap_or_default();
        let inputs = self.resolve_inputs(&keyframes, recipe, canvas, num_frames, &profile.geometry)?;
        Ok(GenerationSpec {
            version: GenerationSpec::version_with(&inputs),
            task,
            partition: task.partition(),
            recipe,
            prompt: prompt.to_owned(),
            canvas,
            num_frames,
            video_sigmas,
            audio_sigmas,
            seed: self.seed.map_or(random_seed, |seed| seed as u64),
            quality,
            geometry: profile.geometry.clone(),
            inputs,
        })
    }

    /// Checks every rule that needs no more of the media than how many of each kind there are, and returns the task. For a
    /// caller to whom fetching them is dear; the request's own `media` are not looked at.
    ///
    /// Errors: those of [`VideoRequest::resolve`].
    pub fn precheck(&self, counts: ReferenceCounts, profile: &ModelProfile) -> Result<Task, Invalid> {
        self.resolve_prompt()?;
        let task = self.resolve_task(counts, profile)?;
        self.check_counts(task, counts)?;
        self.resolve_keyframes(task, counts)?;
        self.check_fps()?;
        // Every picture within the limits leads to a canvas; whether there is one, `counts` has said.
        self.resolve_canvas(task, Some((1, 1)), &profile.geometry)?;
        self.resolve_frames(task, profile)?;
        self.resolve_sigmas(profile)?;
        self.resolve_quality()?;
        Ok(task)
    }

    fn resolve_prompt(&self) -> Result<&str, Invalid> {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        if prompt.is_empty() {
            return Err(Invalid::new(
                InvalidCode::MissingRequiredParameter,
                "prompt",
                "prompt is required and must not be empty",
            ));
        }
        let chars = prompt.chars().count();
        if chars > MAX_PROMPT_CHARS {
            return Err(Invalid::new(
                InvalidCode::StringAboveMaxLength,
                "prompt",
                format!("prompt must be at most {MAX_PROMPT_CHARS} characters, got {chars}"),
            ));
        }
        if let Some(token) = find_special_token(prompt) {
            return Err(Invalid::value("prompt", format!("prompt must not hold special-token strings, got {token}")));
        }
        Ok(prompt)
    }

    fn resolve_task(&self, counts: ReferenceCounts, profile: &ModelProfile) -> Result<Task, Invalid> {
        let unsupported = |message: String| Invalid::new(InvalidCode::UnsupportedTask, "extra_params.task", message);
        let runs: Vec<&str> = Task::ALL.into_iter().filter(|task| profile.serves(*task)).map(Task::as_str).collect();
        let runs = if runs.is_empty() { "no task".to_owned() } else { runs.join(", ") };
        let task = match &self.task {
            Some(name) => name.parse().map_err(|error| unsupported(format!("{error}: this server runs {runs}")))?,
            // Weights for references alone make every request one with references.
            None if profile.serves(Task::Ref2va) && !profile.serves(Task::T2va) => Task::Ref2va,
            None => counts.implied_task(),
        };
        if profile.serves(task) {
            return Ok(task);
        }
        Err(match counts.implied_by() {
            Some(kind) if self.task.is_none() => Invalid::of_kind(
                InvalidCode::UnsupportedTask,
                kind,
                format!("{kind} references make the task {task}, which is not run here: this server runs {runs}"),
            ),
            _ => unsupported(format!("task {task} is not run here: this server runs {runs}")),
        })
    }

    /// Checks that the references go with the task, and says where it is from if the request itself gives no reason for it.
    fn check_counts(&self, task: Task, counts: ReferenceCounts) -> Result<(), Invalid> {
        counts.check(task).map_err(|mut invalid| {
            let is_by_server = self.task.is_none() && counts.implied_task() != task;
            if is_by_server && invalid.code == InvalidCode::ReferenceRequired {
                invalid.message.push_str(": this server runs ref2va alone");
            }
            invalid
        })
    }

    fn check_fps(&self) -> Result<(), Invalid> {
        match self.fps {
            Some(fps) if fps != f64::from(FPS) => {
                Err(Invalid::new(InvalidCode::InvalidFps, "fps", format!("fps must be {FPS}, got {fps}")))
            }
            _ => Ok(()),
        }
    }

    fn resolve_quality(&self) -> Result<Quality, Invalid> {
        match &self.quality {
            None => Ok(Quality::default()),
            Some(name) => name.parse().map_err(|error| Invalid::value("quality", format!("{error}"))),
        }
    }

    /// Finds the canvas; `first_picture` has the sides of the request's first picture.
    fn resolve_canvas(
        &self,
        task: Task,
        first_picture: Option<(u32, u32)>,
        geometry: &GeometryProfile,
    ) -> Result<Canvas, Invalid> {
        if let Some(short_edge) = self.short_edge
            && short_edge != i64::from(geometry.canvas_short_edge)
        {
            return Err(Invalid::value(
                "short_edge",
                format!("short_edge must be {}, got {short_edge}", geometry.canvas_short_edge),
            ));
        }
        let ratio = self.resolve_ratio(task, first_picture)?;
        let explicit = match &self.size {
            Some(size) => Some(("size", parse_size(size)?)),
            None => self.sides()?.map(|sides| ("width", sides)),
        };
        match (explicit, ratio) {
            // A size alone carries its ratio: it is all that OpenAI's clients send.
            (Some((field @ "size", (width, height))), _) | (Some((field, (width, height))), Some(_)) => {
                geometry.explicit_canvas(width, height).map_err(|error| invalid_size(field, (width, height), &error))
            }
            (None, Some(ratio)) => geometry
                .canvas(ratio)
                .map_err(|error| Invalid::new(InvalidCode::InvalidAspectRatio, "aspect_ratio", format!("{error}"))),
            (_, None) => Err(Invalid::new(
                InvalidCode::MissingRequiredParameter,
                "aspect_ratio",
                format!("{task} requires an explicit aspect_ratio"),
            )),
        }
    }

    /// Finds the ratio of width to height that the request means; none where it has to say and does not.
    ///
    /// With keyframes it is the first one's, whatever `aspect_ratio` asks for, as the release has it; references adapt to
    /// nothing and are 16:9 unless one is named.
    fn resolve_ratio(&self, task: Task, first_picture: Option<(u32, u32)>) -> Result<Option<f64>, Invalid> {
        let invalid = |message| Invalid::new(InvalidCode::InvalidAspectRatio, "aspect_ratio", message);
        let named: Option<AspectRatio> = match self.aspect_ratio.as_deref() {
            Some(text) if AspectRatio::is_adaptive(text) && task == Task::T2va => {
                return Err(invalid(format!(
                    "aspect_ratio must be named for {task}, which has no picture to adapt to, got {text:?}"
                )));
            }
            Some(text) if !AspectRatio::is_adaptive(text) => {
                Some(text.parse().map_err(|error| invalid(format!("{error}")))?)
            }
            _ => None,
        };
        Ok(match task {
            Task::T2va => named.map(AspectRatio::value),
            Task::Fl2va => first_picture.map(|(width, height)| f64::from(width) / f64::from(height)),
            Task::Ref2va => Some(named.unwrap_or(AspectRatio::WIDE).value()),
        })
    }

    /// Returns the sides of the first picture of the request, in pixels.
    fn first_picture(&self) -> Option<(u32, u32)> {
        self.media.iter().find_map(|medium| match medium.facts {
            MediumFacts::Image { width, height } => Some((width, height)),
            _ => None,
        })
    }

    /// Returns `width` and `height`, or neither.
    fn sides(&self) -> Result<Option<(u64, u64)>, Invalid> {
        let alone = |missing: &str, given: &str, value: i64| {
            Invalid::value(missing, format!("{missing} must be given together with {given}, got {given} {value} alone"))
        };
        match (self.width, self.height) {
            (None, None) => Ok(None),
            (Some(width), None) => Err(alone("height", "width", width)),
            (None, Some(height)) => Err(alone("width", "height", height)),
            (Some(width), Some(height)) => Ok(Some((positive("width", width)?, positive("height", height)?))),
        }
    }

    fn resolve_frames(&self, task: Task, profile: &ModelProfile) -> Result<FrameCount, Invalid> {
        let geometry = &profile.geometry;
        let refused = |field: &str, error: &dyn std::fmt::Display, got: String| {
            Invalid::new(InvalidCode::InvalidDuration, field, format!("{field}: {error}{got}"))
        };
        let seconds = match (self.duration, self.seconds) {
            (Some(seconds), _) => Some(("extra_params.duration", seconds)),
            (None, Some(seconds)) => Some(("seconds", seconds)),
            (None, None) => None,
        };
        if let Some((field, seconds)) = seconds {
            return FrameCount::from_seconds(seconds, geometry).map_err(|error| refused(field, &error, String::new()));
        }
        match self.num_frames {
            Some(frames) => FrameCount::from_frames(frames, geometry)
                .map_err(|error| refused("num_frames", &error, format!(" ({frames} frames at {FPS} fps)"))),
            None => Ok(profile.defaults.num_frames.of(task)),
        }
    }

    fn resolve_sigmas(&self, profile: &ModelProfile) -> Result<(Sigmas, Sigmas), Invalid> {
        const VIDEO: &str = "flow_shift";
        const AUDIO: &str = "extra_params.audio_flow_shift";
        let points = self.resolve_points(profile)?;
        let grid = |field: &str, shift: f64| {
            match &profile.base_schedule {
                Some(base) => Sigmas::from_base(base, shift),
                None => Sigmas::shifted(points, shift),
            }
            .map_err(|error| match error {
                SigmasError::Points(_) => Invalid::value("num_inference_steps", format!("{error}")),
                _ => Invalid::value(field, format!("{field}: {error}")),
            })
        };
        let video = grid(VIDEO, self.flow_shift.unwrap_or(profile.shifts.video))?;
        let audio = grid(AUDIO, self.audio_flow_shift.unwrap_or(profile.shifts.audio))?;
        // A strong shift makes neighbours equal in F32, and the grid that lost more points could not keep step.
        if video.points() == audio.points() {
            return Ok((video, audio));
        }
        let shorter = if video.points() < audio.points() { VIDEO } else { AUDIO };
        Err(Invalid::value(
            shorter,
            format!(
                "{shorter} must leave video and audio equally many distinct sigmas, got {} and {}",
                video.points(),
                audio.points()
            ),
        ))
    }

    fn resolve_points(&self, profile: &ModelProfile) -> Result<u32, Invalid> {
        const FIELD: &str = "num_inference_steps";
        if let Some(base) = &profile.base_schedule {
            return match self.num_inference_steps {
                Some(points) if usize::try_from(points) != Ok(base.len()) => Err(Invalid::value(
                    FIELD,
                    format!("{FIELD} must be {} for this checkpoint's schedule, got {points}", base.len()),
                )),
                _ => Ok(base.len() as u32),
            };
        }
        let (least, most) = (Sigmas::MIN_POINTS, Sigmas::MAX_POINTS);
        let Some(points) = self.num_inference_steps else {
            return Ok(profile.defaults.num_inference_steps);
        };
        u32::try_from(points).ok().filter(|points| (least..=most).contains(points)).ok_or_else(|| {
            Invalid::value(
                FIELD,
                format!("{FIELD} counts sigma points and must be between {least} and {most}, got {points}"),
            )
        })
    }
}

/// Finds the first text that a tokenizer may take for one of its special tokens: `<|name|>`.
fn find_special_token(prompt: &str) -> Option<&str> {
    let mut start = 0;
    while let Some(open) = prompt[start..].find("<|") {
        let token = &prompt[start + open..];
        let name = &token[2..];
        let length = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(name.len());
        if length > 0 && name[length..].starts_with("|>") {
            return Some(&token[..length + 4]);
        }
        start += open + 2;
    }
    None
}

/// Reads `WxH`, digits only.
fn parse_size(size: &str) -> Result<(u64, u64), Invalid> {
    let side = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    size.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?))).ok_or_else(|| {
        Invalid::value("size", format!("size must be WIDTHxHEIGHT in pixels, such as 1344x768, got {size:?}"))
    })
}

fn positive(field: &str, value: i64) -> Result<u64, Invalid> {
    u64::try_from(value)
        .ok()
        .filter(|value| *value > 0)
        .ok_or_else(|| Invalid::value(field, format!("{field} must be at least 1, got {value}")))
}

fn invalid_size(field: &str, (width, height): (u64, u64), error: &CanvasError) -> Invalid {
    let field_in_words = if field == "size" { "size" } else { "width and height" };
    Invalid::new(InvalidCode::InvalidSize, field, format!("{field_in_words} {width}x{height}: {error}"))
}

#[cfg(test)]
mod tests;
