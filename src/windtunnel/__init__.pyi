from windtunnel.api import advise as advise
from windtunnel.api import ask as ask
from windtunnel.api import compare as compare
from windtunnel.api import explain as explain
from windtunnel.api import fit as fit
from windtunnel.api import import_torch_module as import_torch_module
from windtunnel.api import plan as plan
from windtunnel.api import simulate_serving as simulate_serving
from windtunnel.api import simulate_training as simulate_training
from windtunnel.api import validate as validate
from windtunnel.errors import BadInput as BadInput
from windtunnel.errors import GateFailed as GateFailed
from windtunnel.errors import Infeasible as Infeasible
from windtunnel.errors import WindtunnelError as WindtunnelError
from windtunnel.fluent import scenario as scenario
from windtunnel.fluent import sweep as sweep
from windtunnel.notebook.explore import explore as explore
from windtunnel.scenarios.load import load_scenario as load_scenario
from windtunnel.serving.results.serving_result import ServingResult as ServingResult
from windtunnel.specs.scenario import Scenario as Scenario
from windtunnel.training.results.training_result import TrainingResult as TrainingResult

__version__: str
