//! The controller as a part of a replica that gains and loses its leadership.

use k8s_openapi::api::apps::v1::Deployment;

use super::scene::{Scene, deployment};
use crate::Policy;
use crate::controller::ControllerSettings;
use crate::leadership::LeadershipTeller;
use crate::select::Settings;
use crate::subnet::SubnetController;
use kube_machinery::Env;

#[test]
fn it_works_only_while_it_leads_and_catches_up_when_it_leads_again() {
    let policy = Policy::hardened();
    let scene = Scene::with_subnet(policy);
    let (teller, leadership) = LeadershipTeller::new();
    let settings = ControllerSettings::new(policy);
    let controller = SubnetController::new(scene.server.clone(), scene.env.clone(), (), (), settings, Settings::default());
    scene.env.spawn(async move { controller.serve(&leadership).await });
    scene.server.create::<Deployment>(deployment("web", 3, "+1"));
    scene.pass(5);
    assert_eq!(scene.only_size(), None);
    teller.gained();
    scene.pass(5);
    assert_eq!(scene.only_size(), Some(4));
    teller.lost();
    scene.pass(1);
    scene.scale(5);
    scene.pass(5);
    assert_eq!(scene.only_size(), Some(4));
    teller.gained();
    scene.pass(5);
    assert_eq!(scene.only_size(), Some(6));
}
