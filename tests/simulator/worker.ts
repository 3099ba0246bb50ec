import './current.ts';
import { runSeed, type Plan } from './run.ts';
import { makeStage } from './stage.ts';

// A process that runs seeds one after the other, each as its parent asks.

const staged = makeStage(process.env.TEST_SLOT!);
process.on('message', (plan: Plan) => {
  void staged
    .then((stage) => runSeed(stage, plan))
    .then(
      (result) => process.send!(result),
      (error: Error) => process.send!({ broken: [String(error.stack)], trace: [] }),
    );
});
process.on('disconnect', () => void staged.then((stage) => stage.close()).finally(() => process.exit()));
