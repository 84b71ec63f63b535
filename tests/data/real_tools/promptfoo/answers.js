const answers = { France: 'Paris', Kenya: 'Nairobi is the capital of Kenya.', Peru: '{"capital": "Lima"}', Brazil: { capital: { name: 'Brasilia' } }, Chad: 'As an AI, I would say N\'Djamena.' };
module.exports = class {
  id() { return 'answers'; }
  async callApi(prompt, { vars: { country } }) {
    if (country === 'Atlantis') return { error: 'API error: 503 Service Unavailable\nupstream connect error' };
    return { output: answers[country], tokenUsage: { total: 30, prompt: 22, completion: 8 }, cost: 0.0003 };
  }
};
